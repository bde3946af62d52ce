package redact_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/redact"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type clocked struct {
	runlog.Store
	*runlogtest.Clock
}

func (s clocked) Unwrap() runlog.Store { return s.Store }

func TestOverMemory(t *testing.T) {
	t.Parallel()
	runlogtest.Run(t, func(*testing.T) runlog.Store {
		c := runlogtest.NewClock()
		m := runlog.NewMemory(&runlog.MemoryOptions{Now: c.Now})
		return clocked{redact.Store(m, redact.New(secrets...)), c}
	})
}

// secrets have all that a spelling can change.
var secrets = []redact.Secret{
	{Name: "PLAIN", Value: "hunter2hunter2"},
	{Name: "LONGER", Value: "hunter2hunter2hunter3"},
	{Name: "QUOTED", Value: `a"b\c/d<e>&f`},
	{Name: "WIDE", Value: "pässwörd-ß-☃-🙂"},
	{Name: "LINES", Value: "line one\nline two\ttab"},
	{Name: "WORD", Value: "quarterly"},
	{Name: "SHORT", Value: "1234567"},
	{Name: "odd name\"", Value: "value-of-odd-name"},
	{Name: "redacted", Value: "redacted"},
	{Name: "tells-itself", Value: "tells-itself"},
	{Value: "nameless-value"},
}

func TestValues(t *testing.T) {
	t.Parallel()
	r := redact.New(secrets...)
	if got := r.Ignored(); !slices.Equal(got, []string{"SHORT", "redacted"}) {
		t.Errorf("ignored are %q", got)
	}
	if got := r.Names(); !slices.Equal(got, []string{"", "LINES", "LONGER", "PLAIN", "QUOTED", "WIDE", "WORD", "odd name\"", "tells-itself"}) {
		t.Errorf("looked for are %q", got)
	}
	for in, want := range map[string]string{
		"":                               "",
		"x":                              "x",
		"nothing here, in 1234567":       "nothing here, in 1234567",
		"hunter2hunter2":                 "[redacted:PLAIN]",
		"xhunter2hunter2y":               "x[redacted:PLAIN]y",
		"hunter2hunter2hunter2hunter2":   "[redacted:PLAIN][redacted:PLAIN]",
		"hunter2hunter2hunter3":          "[redacted:LONGER]",
		"hunter2hunter":                  "hunter2hunter",
		`a"b\c/d<e>&f`:                   "[redacted:QUOTED]",
		`{\"k\":\"a\\\"b\\\\c/d<e>&f"`:   `{\"k\":\"[redacted:QUOTED]"`,
		`"a\"b\\c/d\u003ce\u003e\u0026f`: `"[redacted:QUOTED]`,
		"q=a%22b%5Cc%2Fd%3Ce%3E%26f&p":   "q=[redacted:QUOTED]&p",
		"value-of-odd-name":              "[redacted:odd_name_]",
		"tells-itself":                   "[redacted]",
		"nameless-value":                 "[redacted]",
		"the quarterly report":           "the [redacted:WORD] report",
		"[redacted:PLAIN]":               "[redacted:PLAIN]",
	} {
		if got := r.Text(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func TestShapes(t *testing.T) {
	t.Parallel()
	r := redact.New()
	const aToken = "Ab3dEfGhIjKlMnOpQrStUvWxYz0123456789"
	key := "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\nabc+/=\n-----END RSA PRIVATE KEY-----"
	for in, want := range map[string]string{
		"sk-" + aToken:                                      "[redacted]",
		"sk-proj-" + aToken + ".":                           "[redacted]",
		"(sk-ant-api03-" + aToken + ")":                     "([redacted])",
		`\nsk-` + aToken + `\n`:                             `\n[redacted]\n`,
		"k%3Dsk-" + aToken:                                  "k%3D[redacted]",
		"ghp_" + aToken + ",":                               "[redacted],",
		"github_pat_" + aToken + "_" + aToken:               "[redacted]",
		"glpat-" + aToken:                                   "[redacted]",
		"glpat-abcdefghijklmnopqrst":                        "[redacted]",
		"glpat-AbcdefghijKlmnop-rst!":                       "[redacted]!",
		"glrt-t1_abcdefghij_klmnopq":                        "[redacted]",
		"xoxb-123456789012-" + aToken:                       "[redacted]",
		"id AKIAIOSFODNN7EXAMPLE end":                       "id [redacted] end",
		"AIza" + aToken[:35]:                                "[redacted]",
		"hf_" + aToken + " npm_" + aToken:                   "[redacted] [redacted]",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0x.abcdefghijk": "[redacted]",
		"Authorization: Bearer " + aToken:                   "Authorization: Bearer [redacted]",
		"authorization: bearer " + aToken + "\r\nx":         "authorization: bearer [redacted]\r\nx",
		"Authorization: Basic dXNlcjpwYXNzd29yZA==":         "Authorization: Basic [redacted]",
		"postgres://me:secret@db:5432/x?y=z":                "postgres://me:[redacted]@db:5432/x?y=z",
		`https:\/\/me:secret@host\/x`:                       `https:\/\/me:[redacted]@host\/x`,
		"redis://:pw@[::1]:6379":                            "redis://:[redacted]@[::1]:6379",
		"x " + key + " y":                                   "x [redacted] y",
		strings.ReplaceAll(key, "\n", `\n`):                 "[redacted]",
		key[:45] + strings.Repeat("x", 40):                  "[redacted]",

		// What only looks like it.
		"the task-" + aToken:                      "the task-" + aToken,
		"sk-learn-is-a-library-for-machines":      "sk-learn-is-a-library-for-machines",
		"sk-short1":                               "sk-short1",
		"ghp_short":                               "ghp_short",
		"glpat-is-the-prefix-of-gitlab-tokens":    "glpat-is-the-prefix-of-gitlab-tokens",
		"glpat-abcdefghijklm":                     "glpat-abcdefghijklm",
		"a bearer of bad news in 2026":            "a bearer of bad news in 2026",
		"bearer authentication-and-authorization": "bearer authentication-and-authorization",
		"Basic understanding12345678 is needed":   "Basic understanding12345678 is needed",
		"https://host:8080/path@x":                "https://host:8080/path@x",
		"https://user@host/":                      "https://user@host/",
		"https://me:[redacted:PW]@host":           "https://me:[redacted:PW]@host",
		"AKIA and ASIA":                           "AKIA and ASIA",
		"eyJ is how JSON begins":                  "eyJ is how JSON begins",
		"a file begins with -----BEGIN RSA PRIVATE KEY----- they say": "a file begins with -----BEGIN RSA PRIVATE KEY----- they say",
		"-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----": "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----",
	} {
		if got := r.Text(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	r := redact.New(secrets...)
	for in, want := range map[string]string{
		`{}`:                                                          `{}`,
		`{"a": "hunter2hunter2" , "b":1}`:                             `{"a": "[redacted:PLAIN]" , "b":1}`,
		`{"hunter2hunter2":{"x":[null,"y"]}}`:                         `{"[redacted:PLAIN]":{"x":[null,"y"]}}`,
		`"a\"b\\c\/d<e>&f"`:                                           `"[redacted:QUOTED]"`,
		`{"quarterly":"quarterly", "quarterly" :1}`:                   `{"quarterly":"[redacted:WORD]", "quarterly" :1}`,
		`"\u0068unter2hunter2"`:                                       `"[redacted:PLAIN]"`,
		`"\u0068unter"`:                                               `"\u0068unter"`,
		`"a\"b\\c/d\u003ce\u003e\u0026f"`:                             `"[redacted:QUOTED]"`,
		`"a\"b\\c/d\u003Ce\u003e\u0026f"`:                             `"[redacted:QUOTED]"`,
		`"a\"b\\c\/d<e>&f \ud800 \ud83d\ude42\u0000\n"`:               "\"[redacted:QUOTED] \ufffd 🙂\\u0000\\n\"",
		`["\ud800", "hunter2hunter2"]`:                                `["\ud800", "[redacted:PLAIN]"]`,
		`"p\u00e4ssw\u00f6rd-\u00df-\u2603-\ud83d\ude42"`:             `"[redacted:WIDE]"`,
		`"line one\u000aline two\ttab"`:                               `"[redacted:LINES]"`,
		`{"args":"{\"k\":\"a\\\"b\\\\c/d\\u003ce\\u003e\\u0026f\"}"}`: `{"args":"{\"k\":\"[redacted:QUOTED]\"}"}`,
		`{"h":"Authorization: Bearer abcdefghijklmnop1\nX"}`:          `{"h":"Authorization: Bearer [redacted]\nX"}`,
		`{"u":"https:\/\/a:b@c"}`:                                     `{"u":"https://a:[redacted]@c"}`,
		`{"n":12345678901234567890}`:                                  `{"n":12345678901234567890}`,
		`not json: hunter2hunter2`:                                    `not json: [redacted:PLAIN]`,
		`{"cut":"off hunter2hunter2`:                                  `{"cut":"off [redacted:PLAIN]`,
	} {
		given := []byte(in)
		got := r.JSON(given)
		if string(got) != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
		if string(given) != in {
			t.Errorf("%s was changed in place", in)
		}
		if json.Valid(given) != json.Valid(got) {
			t.Errorf("%s became %s, which is not JSON", in, got)
		}
	}
	clean := []byte(`{"text":"nothing"}`)
	if got := r.JSON(clean); &got[0] != &clean[0] {
		t.Error("clean JSON was copied")
	}
	var none *redact.Redactor
	if got := none.Text("hunter2hunter2") + string(none.JSON(clean)); got != "hunter2hunter2"+string(clean) || none.Ignored() != nil {
		t.Errorf("no redactor made %s", got)
	}
}

// A batch is redacted in place, so that followers see the same as readers, without a
// change to what the caller shares with it.
func TestStore(t *testing.T) {
	t.Parallel()
	r := redact.New(secrets...)
	m := runlog.NewMemory(nil)
	s := redact.Store(m, r)
	j, err := journal.Open(t.Context(), s, "r", &journal.Options{Create: &runlog.NewRun{Workflow: "w", Title: "is hunter2hunter2 good?"}})
	if err != nil {
		t.Fatal(err)
	}
	data := json.RawMessage(`{"name":"note","data":{"text":"hunter2hunter2"}}`)
	const want = `{"name":"note","data":{"text":"[redacted:PLAIN]"}}`
	was := bytes.Clone(data)
	recs := []runlog.Record{{Kind: runlog.KindEvent, Path: "a", Time: time.Unix(1, 0), Data: data}}
	log, _, err := s.Acquire(t.Context(), "direct", &runlog.AcquireOptions{Create: &runlog.NewRun{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Append(t.Context(), &runlog.Batch{Records: recs}); err != nil {
		t.Fatal(err)
	}
	if string(recs[0].Data) != want || !bytes.Equal(data, was) {
		t.Errorf("the batch has %s, the caller %s", recs[0].Data, data)
	}
	// An effect gives what is recorded of it, now as after a crash.
	effect := &journal.Effect{Key: "k", Kind: "tool", Name: "env", Hash: "h"}
	out, err := journal.Do(t.Context(), j.Scope("task"), effect, func(context.Context, string) (string, error) { return "the key is hunter2hunter2", nil })
	if err != nil || out != "the key is [redacted:PLAIN]" {
		t.Errorf("the effect gave %q, error %v", out, err)
	}
	if err := j.Write(t.Context(), "", runlog.KindEvent, "part[hunter2hunter2]", nil); err == nil || !strings.Contains(err.Error(), "another key") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a path with a secret: %v", err)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	infos, err := m.Runs(t.Context(), &runlog.Filter{ID: "r"})
	if err != nil || infos[0].Title != "is [redacted:PLAIN] good?" {
		t.Errorf("listed %+v, error %v", infos, err)
	}
	for _, id := range []string{"r", "direct"} {
		recs, err := m.Read(t.Context(), id, 1, 9)
		if err != nil || len(recs) == 0 {
			t.Fatal(err)
		}
		for _, r := range recs {
			if bytes.Contains(r.Data, []byte("hunter2")) {
				t.Errorf("run %s, record %d: %s", id, r.Seq, r.Data)
			}
		}
	}
	if redact.Store(m, nil) != runlog.Store(m) {
		t.Error("a store without a redactor is not that store")
	}
}

// Tools number the lines they show, and cut texts at them. So each line of a secret is
// one of its own, but for those that are common.
func TestLines(t *testing.T) {
	t.Parallel()
	r := redact.New(
		redact.Secret{Name: "PEM", Value: "-----BEGIN RSA PRIVATE KEY-----\r\nProc-Type: 4,ENCRYPTED\r\n\r\nMIIEowIBAAKCAQEAabc+/==\r\nlastlineofit\r\nAb3=\r\n-----END RSA PRIVATE KEY-----\r\n"},
		redact.Secret{Name: "JSON", Value: "{\n  \"type\": \"service_account\",\n  \"project\": \"acme\",\n  \"key_id\": \"0a1b2c3d4e5f60718293\"\n}"},
		redact.Secret{Name: "YAML", Value: "apiVersion: v1\nkind: Config\nusers:\n- token: k8s-9f86d081884c7d65\nthe second line of it\nlog in"},
	)
	for in, want := range map[string]string{
		"     4\tMIIEowIBAAKCAQEAabc+/==\n     5\tlastlineofit\n": "     4\t[redacted:PEM]\n     5\t[redacted:PEM]\n",
		"-----BEGIN RSA PRIVATE KEY-----":                         "-----BEGIN RSA PRIVATE KEY-----",
		"Proc-Type: 4,ENCRYPTED\n6\tAb3=":                         "Proc-Type: 4,ENCRYPTED\n6\tAb3=",
		`1	"type": "service_account",`:                            `1	"type": "service_account",`,
		`2	  "key_id": "0a1b2c3d4e5f60718293"`:                    `2	  [redacted:JSON]`,
		"apiVersion: v1\nkind: Config\nusers:":                    "apiVersion: v1\nkind: Config\nusers:",
		"11: - token: k8s-9f86d081884c7d65":                       "11: [redacted:YAML]",
		"2: the second line of it":                                "2: [redacted:YAML]",
		"please log in":                                           "please log in",
	} {
		if got := r.Text(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
		quoted, _ := json.Marshal(in)
		var back string
		if err := json.Unmarshal(r.JSON(quoted), &back); err != nil || back != want {
			t.Errorf("as JSON %q became %q, want %q, error %v", in, back, want, err)
		}
	}
	if got := r.Names(); !slices.Equal(got, []string{"JSON", "PEM", "YAML"}) {
		t.Errorf("looked for are %q", got)
	}
}

// The names of these variables do not say whether their values are secret. What is made of
// words, or is a path, is not.
func TestFromEnvByLooks(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"NPM_AUTH", "FIREBASE_DATA", "npm_config__auth"} {
		for _, secret := range []string{"9f86d081884c7d65", "dGhlIHBhc3N3b3JkIGlz", "QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "service:h4nter2hunter2", "x/y/9f86d081884c7d65", `{"key":"9f86d081884c7d65"}`, "abcdefghijklmnopqrstuvwxyz", "correct-horse-battery-staple"} {
			if got := redact.FromEnv([]string{name + "=" + secret}); len(got) == 0 || got[0].Value != secret {
				t.Errorf("%s=%s gives %v", name, secret, got)
			}
		}
		for _, word := range []string{"true", "kerberos", "scram-sha-256", "publickey,password", "production-eu-west-1", "/var/lib/app-9f86d081884c7d65", "./data9f86d081884c7d65", `C:\data\9f86d081884c7d65`, "~/9f86d081884c7d65", "https://example.org/9f86d081884c7d65", "OAuth2", "TLSv1.3", "file:///srv/data"} {
			if got := redact.FromEnv([]string{name + "=" + word}); len(got) != 0 {
				t.Errorf("%s=%s gives %v", name, word, got)
			}
		}
	}
	// A password is told from the name before it, cookies from each other, and both from words.
	for entry, want := range map[string][]redact.Secret{
		"PROXY_AUTH=me:9f86d081884c7d65":                           {{Name: "PROXY_AUTH", Value: "me:9f86d081884c7d65"}, {Name: "PROXY_AUTH", Value: "9f86d081884c7d65"}},
		"SITE_COOKIE=sid=9f86d081884c7d65; theme=dark; lang=en-us": {{Name: "SITE_COOKIE", Value: "sid=9f86d081884c7d65; theme=dark; lang=en-us"}, {Name: "SITE_COOKIE", Value: "9f86d081884c7d65"}},
		"SITE_COOKIE=9f86d081884c7d65":                             {{Name: "SITE_COOKIE", Value: "9f86d081884c7d65"}},
	} {
		if got := redact.FromEnv([]string{entry}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s gives %v, want %v", entry, got, want)
		}
	}
}

func TestFromEnv(t *testing.T) {
	t.Parallel()
	got := redact.FromEnv([]string{
		"PATH=/bin", "broken", "EMPTY_TOKEN=", "OPENAI_API_KEY=sk-1", "token=T", "MY_SECRET=a=b", "GH_TOKEN_FILE=/x", "TOKENIZER=bpe",
		"AWS_SECRET_ACCESS_KEY=K", "PGPASSWORD=p1", "DB_PASSWORD=p2",
		"DATABASE_URL=postgres://me:p%40ss@db/x", "PLAIN_URL=https://host/a:b@c", "REDIS_URL=redis://:a/b@h", "USER_URL=https://me@host", "PORT_URL=https://host:8080/x@y", "PWD=/home",
		"PG_DSN=host=h password='Quoted' user=u", "SQL_DSN=Server=h;Pwd=X;",
		"SUPERSTEP_STORE_KEY=0a1b, 2c3d", "SUPERSTEP_STORE_KEY_FILE=/etc/key", "RESTORE_KEY=no", "STORE_KEY=4e5f",
		"GITLAB_PAT=pat-1", "STRIPE_SK=sk-2", "PAT=pat-3", "XPAT=no", "BASK=no", "GIT_AUTHOR=no", "PGDATA=/var/9f86d081884c7d65", "MY_PATH=/x",
		"POSTGRES_PASSWORD=postgres", "MINIO_PASSWORD= changeme\n", "LONG_PASSWORD=abcdefghijkl", "WORD_PASSWORD=abcdefghijk", "UPPER_PASSWORD=Changeme", "DEV_URL=postgres://me:postgres@db/x",
	})
	want := []redact.Secret{
		{Name: "AWS_SECRET_ACCESS_KEY", Value: "K"},
		{Name: "DATABASE_URL", Value: "p%40ss"}, {Name: "DATABASE_URL", Value: "p@ss"},
		{Name: "DB_PASSWORD", Value: "p2"}, {Name: "GITLAB_PAT", Value: "pat-1"}, {Name: "LONG_PASSWORD", Value: "abcdefghijkl"}, {Name: "MY_SECRET", Value: "a=b"}, {Name: "OPENAI_API_KEY", Value: "sk-1"},
		{Name: "PAT", Value: "pat-3"}, {Name: "PGPASSWORD", Value: "p1"}, {Name: "PG_DSN", Value: "Quoted"},
		{Name: "REDIS_URL", Value: "a/b"}, {Name: "SQL_DSN", Value: "X"}, {Name: "STORE_KEY", Value: "4e5f"}, {Name: "STRIPE_SK", Value: "sk-2"},
		{Name: "SUPERSTEP_STORE_KEY", Value: "0a1b"}, {Name: "SUPERSTEP_STORE_KEY", Value: "2c3d"},
		{Name: "UPPER_PASSWORD", Value: "Changeme"}, {Name: "token", Value: "T"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// Whatever goes in: JSON stays JSON of the same make, no string has a secret, and one that
// had none is what it was.
func FuzzJSON(f *testing.F) {
	r := redact.New(secrets...)
	for _, s := range secrets {
		b, _ := json.Marshal(map[string]any{"k": s.Value, s.Value: []any{1, "x" + s.Value + s.Value}})
		f.Add(b)
		nested, _ := json.Marshal(string(b))
		f.Add(nested)
	}
	f.Add([]byte(`{"a":"\u0068unter2hunter2","b":"\ud800 https:\/\/a:b@c","c":"sk-Ab3dEfGhIjKlMnOpQrStUvWxYz"}`))
	f.Add([]byte(`"-----BEGIN PRIVATE KEY-----\nabcdefghijklmnopqrstuvwxyz0123456789==\n-----END PRIVATE KEY-----"`))
	f.Fuzz(func(t *testing.T, in []byte) {
		was := bytes.Clone(in)
		out := r.JSON(in)
		if !bytes.Equal(in, was) {
			t.Fatal("the input was changed")
		}
		if again := r.JSON(out); !bytes.Equal(again, out) {
			t.Fatalf("%q becomes %q, and that %q", in, out, again)
		}
		if !json.Valid(in) {
			return
		}
		if !json.Valid(out) {
			t.Fatalf("%q becomes %q, which is not JSON", in, out)
		}
		before, after := tokens(t, in), tokens(t, out)
		if len(before) != len(after) {
			t.Fatalf("%q becomes %q", in, out)
		}
		for i := range before {
			a, isText := before[i].(string)
			if !isText {
				if before[i] != after[i] {
					t.Fatalf("%v becomes %v", before[i], after[i])
				}
				continue
			}
			b := after[i].(string)
			for _, s := range secrets {
				if len(s.Value) < 8 || s.Name == "redacted" || s.Name == "WORD" {
					continue
				}
				if strings.Contains(b, s.Value) {
					t.Fatalf("%q becomes %q, which has %s", a, b, s.Name)
				}
			}
			if a != b && r.Text(a) == a {
				t.Fatalf("%q becomes %q for no reason", a, b)
			}
		}
	})
}

func tokens(t *testing.T, b []byte) []json.Token {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var out []json.Token
	for {
		tok, err := d.Token()
		if err != nil {
			return out
		}
		out = append(out, tok)
	}
}

func document(size int, escapes bool) []byte {
	line := "A run is an ordered log of records; see https://example.org/docs/log and task-17, or ask for more. "
	if escapes {
		line = "if a < b && c > d {\n\tfmt.Println(\"task\")\n} "
	}
	b, _ := json.Marshal(map[string]any{"name": "part", "step": 3, "update": strings.Repeat(line, size/len(line)+1)[:size-40]})
	return b
}

func BenchmarkJSON(b *testing.B) {
	many := slices.Clone(secrets)
	for i := range 30 {
		many = append(many, redact.Secret{Name: "S", Value: fmt.Sprintf("%x-secret-%d-with-a-value", i*7919, i)})
	}
	r := redact.New(many...)
	for _, size := range []int{1 << 10, 100 << 10} {
		for _, kind := range []string{"prose", "code", "hit"} {
			doc := document(size, kind == "code")
			if kind == "hit" {
				doc = bytes.Replace(doc, []byte("task-17"), []byte("hunter2hunter2"), 1)
			}
			b.Run(fmt.Sprintf("%dKB/%s", size>>10, kind), func(b *testing.B) {
				b.SetBytes(int64(len(doc)))
				for b.Loop() {
					if out := r.JSON(doc); (kind == "hit") == bytes.Equal(out, doc) {
						b.Fatal("it was not seen")
					}
				}
			})
		}
	}
}

// What is shown live, and never stored, is redacted like a record.
func TestLive(t *testing.T) {
	t.Parallel()
	s := redact.Store(runlog.NewMemory(nil), redact.New(secrets...))
	j, err := journal.Open(t.Context(), s, "r", &journal.Options{Create: &runlog.NewRun{}})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close(t.Context())
	if err := j.Scope("task").Emit(t.Context(), "note", "first"); err != nil {
		t.Fatal(err)
	}
	next, stop := iter.Pull2(j.Follow(t.Context(), 0))
	defer stop()
	if r, err, ok := next(); !ok || err != nil || r.Seq != 1 {
		t.Fatalf("%+v, error %v", r, err)
	}
	j.Scope("task").Live("text", "the key is hunter2hunter2")
	r, err, _ := next()
	if want := `{"name":"text","data":"the key is [redacted:PLAIN]"}`; err != nil || r.Seq != 0 || string(r.Data) != want {
		t.Errorf("followers see %s, want %s, error %v", r.Data, want, err)
	}
}
