"""Train an EAGLE-3 head (Li et al. 2025, arXiv:2503.01840) for the embedded target: python3 eagle.py OUT [key=value ...].

It reads train.bin and hold.bin (uint16 token ids, written by data.py of the pair's training tool), own.bin (the target's own
continuations, written by generate.go, [rows][512]; it may appear later) and the target's F32 GGUF file, and writes OUT, a NumPy
archive of the head's tensors with their GGUF names, every minute. It runs on a GPU where there is one, else on CPUs with bfloat16
matrices. Keys: target, data (folder), minutes, layers, steps, rows, lr, threads, lock (a file that is locked, shared, for each step).
"""
import fcntl, math, os, struct, sys, time
import numpy as np, torch, torch.nn as nn, torch.nn.functional as F

out, o = sys.argv[1], dict(target='go-target.f32.gguf', data='.', minutes='30', layers='1,3,5', steps='4', rows='8', lr='2e-3', threads='1', lock='', fraction='0.5', init='', seed='7', tiny='')
o.update(a.split('=', 1) for a in sys.argv[2:])
layers, steps, rows, T = [int(k) for k in o['layers'].split(',')], int(o['steps']), int(o['rows']), 512
dev = 'cuda' if torch.cuda.is_available() else 'cpu'
torch.set_num_threads(int(o['threads'])); torch.manual_seed(int(o['seed']))

def gguf(path):
    """The float32 tensors of a GGUF file."""
    b = open(path, 'rb').read(); p = 8
    def u(f):
        nonlocal p
        v = struct.unpack_from(f, b, p); p += struct.calcsize(f); return v[0] if len(v) == 1 else v
    def s():
        nonlocal p
        n = u('<Q'); p += n; return b[p - n:p].decode()
    def value(t):
        if t == 8: return s()
        if t == 9:
            t, n = u('<IQ'); return [value(t) for _ in range(n)]
        return u({0: '<B', 1: '<b', 2: '<H', 3: '<h', 4: '<I', 5: '<i', 6: '<f', 7: '<?', 10: '<Q', 11: '<q', 12: '<d'}[t])
    nt, nk = u('<QQ')
    for _ in range(nk): s(); value(u('<I'))
    infos = []
    for _ in range(nt):
        name, d = s(), u('<I'); ne = [u('<Q') for _ in range(d)]; infos.append((name, ne, *u('<IQ')))
    base = (p + 31) // 32 * 32
    assert all(t == 0 for _, _, t, _ in infos), 'the target must be in F32'
    return {n: torch.from_numpy(np.frombuffer(b, np.float32, math.prod(ne), base + at).reshape(ne[::-1]).copy()) for n, ne, t, at in infos}

W = {n: w.to(dev) for n, w in gguf(o['target']).items()}
V, D = W['token_embd.weight'].shape
L, H, KV, d, eps = 6, 4, 2, 64, 1e-5

def rms(x, w): x = x.float(); return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w
angle = torch.arange(1100).float()[:, None] * (10000 ** (-torch.arange(0, d, 2).float() / d))[None]
COS, SIN = angle.cos().to(dev), angle.sin().to(dev)
def rope(x, at):                                        # x [B][heads][T][d], pairs (2i, 2i+1); at: the first position
    n = x.shape[2]; c, s = COS[at:at + n], SIN[at:at + n]; a, b = x[..., 0::2].float(), x[..., 1::2].float()
    return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2)
def heads(x, n): return x.view(x.shape[0], x.shape[1], n, d).transpose(1, 2)
def spread(x): return x.repeat_interleave(H // KV, 1)

@torch.no_grad()
def target(x):
    """The states at the layers [B][T][3D] and the logits [B][T][V] of tokens x."""
    n = x.shape[1]; mask = torch.full((n, n), float('-inf'), device=dev).triu(1); h, kept = W['token_embd.weight'][x], {}
    for i in range(L + 1):
        if i in layers: kept[i] = h
        if i == L: break
        w = lambda name: W[f'blk.{i}.{name}.weight']
        a = rms(h, w('attn_norm'))
        q, k, v = rope(heads(F.linear(a, w('attn_q')), H), 0), spread(rope(heads(F.linear(a, w('attn_k')), KV), 0)), spread(heads(F.linear(a, w('attn_v')), KV))
        y = (((q @ k.transpose(-1, -2)).float() / math.sqrt(d) + mask).softmax(-1) @ v.float()).transpose(1, 2).flatten(2)
        h = h + F.linear(y, w('attn_output')).float(); a = rms(h, w('ffn_norm'))
        h = h + F.linear(F.silu(F.linear(a, w('ffn_gate'))) * F.linear(a, w('ffn_up')), w('ffn_down')).float()
    return torch.cat([kept[i] for i in layers], -1), F.linear(rms(h, W['output_norm.weight']), W['token_embd.weight']).float()

class Head(nn.Module):
    """One block over the embedding of a token and a hidden state; token embeddings and output matrix are the target's."""
    def __init__(s):
        super().__init__()
        lin = lambda a, b: nn.Parameter(torch.randn(a, b) * 0.5 / math.sqrt(b))
        last = lambda name: nn.Parameter(W[f'blk.{L-1}.{name}.weight'].clone())
        s.fc = lin(D, 3 * D)
        with torch.no_grad(): s.fc.mul_(0.2); s.fc[:, 2 * D:] += torch.eye(D)
        s.n1, s.n2, s.n3, s.n4 = nn.Parameter(torch.ones(D)), nn.Parameter(torch.ones(D)), last('ffn_norm'), nn.Parameter(W['output_norm.weight'].clone())
        s.q, s.k, s.v = lin(H * d, 2 * D), lin(KV * d, 2 * D), lin(KV * d, 2 * D)
        with torch.no_grad():                           # the half that reads hidden states begins as the target's last block
            for p, name in ((s.q, 'attn_q'), (s.k, 'attn_k'), (s.v, 'attn_v')): p[:, :D] *= 0.5; p[:, D:] = W[f'blk.{L-1}.{name}.weight']
        s.o, s.gate, s.up, s.down = last('attn_output'), last('ffn_gate'), last('ffn_up'), last('ffn_down')
    NAMES = dict(fc='fc', n1='blk.0.attn_norm', n2='blk.0.attn_norm_2', n3='blk.0.ffn_norm', n4='output_norm', q='blk.0.attn_q', k='blk.0.attn_k',
                 v='blk.0.attn_v', o='blk.0.attn_output', gate='blk.0.ffn_gate', up='blk.0.ffn_up', down='blk.0.ffn_down')
    def step(s, tokens, g, keys, values, j, mask):
        """Step j of the unrolled draft: tokens [B][n], states g [B][n][D]. Row i stands at position i+j; it sees the rows up to i of
        step 0, whose states are the target's, and its own of the steps after that."""
        a = torch.cat((rms(W['token_embd.weight'][tokens], s.n1), rms(g, s.n2)), -1)
        q, k, v = rope(heads(F.linear(a, s.q), H), j), spread(rope(heads(F.linear(a, s.k), KV), j)), spread(heads(F.linear(a, s.v), KV))
        keys.append(k); values.append(v)
        z = [(q @ keys[0].transpose(-1, -2)).float() / math.sqrt(d) + mask] + [(q * kk).sum(-1, keepdim=True) / math.sqrt(d) for kk in keys[1:]]
        p = torch.cat(z, -1).softmax(-1); n = tokens.shape[1]
        y = p[..., :n].to(v.dtype) @ values[0]
        for i, vv in enumerate(values[1:]): y = y + p[..., n + i:n + i + 1].to(v.dtype) * vv
        y = g + F.linear(y.transpose(1, 2).flatten(2), s.o).float(); a = rms(y, s.n3)
        return y + F.linear(F.silu(F.linear(a, s.gate)) * F.linear(a, s.up), s.down).float()
    def logits(s, y): return F.linear(rms(y, s.n4), W['token_embd.weight']).float()

def run(head, x, unroll, fraction):
    """Mean cross-entropy of each step towards the target's distribution, and how often the most likely tokens agree, each given that
    all earlier steps agreed, and on average."""
    f, p = target(x); p = p.softmax(-1); best = p.argmax(-1)
    n = x.shape[1] - unroll; mask = torch.full((n, n), float('-inf'), device=dev).triu(1)
    g, keys, values, losses, agree, alive, reach = F.linear(f[:, :n], head.fc).float(), [], [], [], [], None, []
    for j in range(unroll):                             # row i: token i+1+j in, the target's choice after it out
        g = head.step(x[:, 1 + j:1 + j + n], g, keys, values, j, mask)
        some = torch.rand(g.shape[:2], device=dev) < fraction if fraction < 1 else torch.ones(g.shape[:2], dtype=torch.bool, device=dev)
        z = head.logits(g[some]); losses.append(F.cross_entropy(z, p[:, 1 + j:1 + j + n][some]))
        if fraction == 1:
            ok = (z.argmax(-1) == best[:, 1 + j:1 + j + n].reshape(-1)).float()
            alive = ok if alive is None else alive * ok; agree.append(ok.mean().item()); reach.append(alive.mean().item())
    return losses, agree, reach

train, hold = (torch.from_numpy(np.fromfile(os.path.join(o['data'], n + '.bin'), np.uint16).astype(np.int64)) for n in ('train', 'hold'))
own, ownHold, looked = None, None, 0
def look():
    """Reads own.bin when it is there. Its last 32 rows are for measurements."""
    global own, ownHold, looked
    looked = time.time(); path = os.path.join(o['data'], 'own.bin')
    if own is None and os.path.exists(path):
        all = torch.from_numpy(np.fromfile(path, np.uint16).astype(np.int64)).view(-1, T); own, ownHold = all[:-32], all[-32:]; print('own continuations:', len(own), flush=True)
def batch():
    part = []
    for _ in range(rows):
        if own is not None and torch.rand(1).item() < 0.75: part.append(own[torch.randint(len(own), (1,)).item()])
        else: i = torch.randint(len(train) - T, (1,)).item(); part.append(train[i:i + T])
    return torch.stack(part).to(dev)
def shared():
    """The machine's lock for work that others may run beside. Who measures holds it alone, and the gate beside it while waiting."""
    if not o['lock']: return None
    gate = open(os.path.join(os.path.dirname(o['lock']), 'gate'))
    try: fcntl.flock(gate, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError: time.sleep(0.05)
    gate.close(); f = open(o['lock'])
    while True:
        try: fcntl.flock(f, fcntl.LOCK_SH | fcntl.LOCK_NB); return f
        except BlockingIOError: time.sleep(0.1)
def save(head):
    np.savez(out + '.tmp.npz', layers=layers, **{Head.NAMES[n] + '.weight': p.detach().float().cpu().numpy() for n, p in head.named_parameters()}); os.replace(out + '.tmp.npz', out)

head = Head().to(dev)
if o['init']:
    kept = np.load(o['init'])
    with torch.no_grad():
        for n, p in head.named_parameters(): p.copy_(torch.from_numpy(kept[Head.NAMES[n] + '.weight']))
matrices, vectors = [p for p in head.parameters() if p.dim() == 2], [p for p in head.parameters() if p.dim() == 1]
opt = torch.optim.AdamW([dict(params=matrices, weight_decay=0.01), dict(params=vectors, weight_decay=0)], lr=float(o['lr']), betas=(0.9, 0.95))
print(sum(p.numel() for p in head.parameters()), 'parameters,', dev, 'layers', layers, flush=True)
def measure(name, x):
    with torch.no_grad(), torch.autocast(dev, dtype=torch.bfloat16):
        parts = [run(head, y.to(dev), 5, 1) for y in x.split(8)]
    mean = lambda k: [round(float(np.mean([float(q[k][j]) for q in parts])), 3) for j in range(5)]
    print(f'{name}: loss {mean(0)} agree {mean(1)} reach {mean(2)} tokens/pass {1 + sum(mean(2)):.3f}', flush=True)
minutes, begun, seen, ema, saved, count = float(o['minutes']), time.time(), 0, None, time.time(), 0
look()
while (part := (time.time() - begun) / 60 / minutes) < 1:
    lock = shared()
    for gp in opt.param_groups: gp['lr'] = float(o['lr']) * min(1, (count + 1) / 50) * (0.51 + 0.49 * math.cos(math.pi * part))
    with torch.autocast(dev, dtype=torch.bfloat16):
        losses, _, _ = run(head, batch(), steps, float(o['fraction']))
        loss = sum(0.9 ** j * l for j, l in enumerate(losses))
    opt.zero_grad(set_to_none=True); loss.backward(); nn.utils.clip_grad_norm_(head.parameters(), 1.0); opt.step()
    if lock: lock.close()
    v = np.array([l.item() for l in losses]); ema = v if ema is None else 0.98 * ema + 0.02 * v; count += 1; seen += rows * T
    if count % 20 == 0: print(f'step {count} {seen/1e6:.2f}M tokens {seen/(time.time()-begun):.0f}/s loss {ema.round(3)}', flush=True)
    if time.time() - looked > 20: look()
    if time.time() - saved > 60: saved = time.time(); save(head)
    if count % 300 == 0 and ownHold is not None: lock = shared(); measure('own', ownHold[:16]); lock and lock.close()
save(head)
measure('held out', hold[:32 * T].view(-1, T))
if ownHold is not None: measure('own', ownHold)
