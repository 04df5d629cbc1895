// The colors of code: comments, strings, numbers and keywords of common languages. It looks at one character after the other
// and knows no grammar, so code that is not complete, or not correct, has its colors too.

const words = (s) => new Set(s.split(" "));

const c = { line: ["//"], block: [["/*", "*/"]], strings: ['"', "'"] };
const hash = { line: ["#"], block: [], strings: ['"', "'"] };

const languages = {
  go: { ...c, strings: ['"', "'", "`"], words: words("break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var nil true false string int int8 int16 int32 int64 uint uint8 uint16 uint32 uint64 byte rune bool error any float32 float64 make new len cap append") },
  c: { ...c, words: words("auto break case char class const constexpr continue default delete do double else enum extern false float for friend goto if include define inline int long namespace new nullptr private protected public return short signed sizeof static struct switch template this throw true try typedef typename union unsigned using virtual void volatile while bool NULL") },
  java: { ...c, words: words("abstract boolean break byte case catch char class const continue default do double else enum extends final finally float for if implements import instanceof int interface long new null package private protected public return short static super switch synchronized this throw throws true false try var void while fun val when object data override internal string using namespace async await record") },
  js: { ...c, strings: ['"', "'", "`"], words: words("as async await break case catch class const continue debugger default delete do else enum export extends false finally for from function if implements import in instanceof interface let new null of return static super switch this throw true try type typeof undefined var void while with yield string number boolean any") },
  rust: { ...c, strings: ['"'], words: words("as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while i8 i16 i32 i64 u8 u16 u32 u64 usize isize f32 f64 bool str String Vec Option Some None Ok Err") },
  python: { ...hash, strings: ['"""', "'''", '"', "'"], words: words("and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return True try while with yield self match case print") },
  sh: { ...hash, words: words("if then else elif fi for while do done case esac in function return local export set unset echo cd exit sudo source alias read test") },
  yaml: { ...hash, words: words("true false null yes no on off") },
  sql: { line: ["--"], block: [["/*", "*/"]], strings: ["'", '"'], fold: true, words: words("select from where and or not in is null insert into values update set delete create table index view drop alter add primary key foreign references join left right inner outer on group by order having limit offset union all distinct as case when then else end exists between like int integer text varchar boolean default constraint unique with count sum avg min max") },
  lua: { line: ["--"], block: [["--[[", "]]"]], strings: ['"', "'"], words: words("and break do else elseif end false for function goto if in local nil not or repeat return then true until while") },
  ruby: { ...hash, words: words("begin break case class def do else elsif end ensure false for if in module next nil not or redo rescue retry return self super then true undef unless until when while yield require puts attr_accessor") },
  css: { line: [], block: [["/*", "*/"]], strings: ['"', "'"], words: words("important") },
  html: { line: [], block: [["<!--", "-->"]], strings: ['"', "'"], tags: true, words: words("") },
  json: { line: [], block: [], strings: ['"'], words: words("true false null") },
};

const names = {
  golang: "go", "c++": "c", cpp: "c", cc: "c", h: "c", hpp: "c", cs: "java", csharp: "java", kotlin: "java", kt: "java", scala: "java", swift: "java", dart: "java",
  javascript: "js", jsx: "js", ts: "js", tsx: "js", typescript: "js", mjs: "js", rs: "rust", py: "python", python3: "python", bash: "sh", shell: "sh", zsh: "sh", console: "sh",
  dockerfile: "sh", makefile: "sh", yml: "yaml", toml: "yaml", ini: "yaml", rb: "ruby", scss: "css", xml: "html", svg: "html", vue: "html", jsonc: "json", json5: "json", postgresql: "sql", mysql: "sql",
};

/** The language of a name behind a fence; undefined if it is not known. */
export const language = (name) => { const n = (name || "").toLowerCase(); return languages[names[n] || n]; };

const isWord = (ch) => ch !== undefined && /[\p{L}\p{N}_$]/u.test(ch);
const longest = 100_000; // characters of code with colors; longer code has none

/**
 * The colored parts of a code, in order: [from, to, class], where class is h-c (comment), h-s (string), h-n (number) or h-k
 * (keyword). What is between them has no color.
 */
export function colored(text, lang) {
  const out = [];
  if (!lang || text.length > longest) return out;
  for (let i = 0; i < text.length;) {
    const from = i, block = lang.block.find(([open]) => text.startsWith(open, i));
    if (block) {
      const e = text.indexOf(block[1], i + block[0].length);
      i = e < 0 ? text.length : e + block[1].length;
      out.push([from, i, "h-c"]);
    } else if (lang.line.some((m) => text.startsWith(m, i)) && !(text[i] === "#" && isWord(text[i - 1]))) {
      const e = text.indexOf("\n", i);
      i = e < 0 ? text.length : e;
      out.push([from, i, "h-c"]);
    } else if (lang.strings.some((q) => text.startsWith(q, i)) && !(text[i] === "'" && isWord(text[i - 1]))) {
      const q = lang.strings.find((s) => text.startsWith(s, i));
      i = endOfString(text, i + q.length, q);
      out.push([from, i, "h-s"]);
    } else if (lang.tags && text[i] === "<" && /[A-Za-z/!]/.test(text[i + 1] || "")) {
      i++;
      while (i < text.length && /[\w:/!-]/.test(text[i])) i++;
      out.push([from, i, "h-k"]);
    } else if (/\d/.test(text[i])) {
      while (i < text.length && /[\w.]/.test(text[i])) i++;
      out.push([from, i, "h-n"]);
    } else if (isWord(text[i])) {
      while (i < text.length && isWord(text[i])) i++;
      const w = text.slice(from, i);
      if (lang.words.has(lang.fold ? w.toLowerCase() : w)) out.push([from, i, "h-k"]);
    } else i++;
  }
  return out;
}

// endOfString is behind the closing quote. A string of one line ends with the line.
function endOfString(text, i, q) {
  const many = q === "`" || q.length > 1;
  for (; i < text.length; i++) {
    if (text[i] === "\\" && q !== "`") i++;
    else if (text.startsWith(q, i)) return i + q.length;
    else if (text[i] === "\n" && !many) return i;
  }
  return text.length;
}
