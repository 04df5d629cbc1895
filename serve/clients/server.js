// Starts `spec serve` on a free port with the pair inside the program, for the tests of clients.
// SPEC names the program; without it the repository's is built.
import { spawn, execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, dirname } from "node:path";

const here = dirname(fileURLToPath(import.meta.url));

function program() {
  if (process.env.SPEC) return process.env.SPEC;
  const file = join(mkdtempSync(join(tmpdir(), "spec-")), "spec");
  execFileSync("go", ["build", "-o", file, "./cmd/spec"], { cwd: join(here, "../.."), stdio: "inherit" });
  return file;
}

export const key = "a-key-of-the-tests";

// start returns the server's address and a function that stops it and tells its exit code; kill leaves it no time. It takes more arguments of the command, and variables of the environment.
export async function start(more = [], env = {}) {
  const child = spawn(program(), ["serve", "--port", "0", "--api-key", key, "--chat-template-file", join(here, "hermes.jinja"), "--temp", "0", "--log-format", "off", ...more],
    { stdio: ["ignore", "inherit", "pipe"], env: { ...process.env, ...env } });
  const ended = new Promise((resolve) => child.on("exit", (code) => resolve(code)));
  const url = await new Promise((resolve, reject) => {
    let text = "";
    child.stderr.on("data", (d) => {
      text += d;
      const m = /listening on (http:\S+)/.exec(text);
      if (m) resolve(m[1]);
    });
    ended.then((code) => reject(new Error(`spec serve ended with ${code}: ${text}`)));
  });
  return { url, stop: async () => { child.kill("SIGTERM"); return ended; }, kill: async () => { child.kill("SIGKILL"); return ended; } };
}
