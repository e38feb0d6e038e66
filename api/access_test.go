package api

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "github.com/simnode/simnode/api/simnodev1"
	"github.com/simnode/simnode/api/simnodev1/simnodev1connect"
)

// A call without a rule, or a rule without a call, is a mistake.
func TestEveryCallHasARule(t *testing.T) {
	left := rules()
	methods := pb.File_simnode_proto.Services().ByName("Cluster").Methods()
	for i := range methods.Len() {
		path := "/" + simnodev1connect.ClusterName + "/" + string(methods.Get(i).Name())
		role, is := left[path]
		if !is {
			t.Errorf("%s has no rule", path)
		}
		name := string(methods.Get(i).Name())
		changes := name == "Submit" || name == "Pause" || name == "Resume" || name == "Stop"
		if want := map[bool]Role{true: Operate, false: Read}[changes]; role != want {
			t.Errorf("%s needs role %v, not %v", path, role, want)
		}
		delete(left, path)
	}
	want := map[string]Role{pathHealth: Public, pathReady: Public, pathMetrics: Read, pathJobs: Read}
	if !maps.Equal(left, want) {
		t.Errorf("rules beside the calls: %v", left)
	}
}

// What is not in the table does not exist, whoever asks.
func TestNothingIsServedWithoutARule(t *testing.T) {
	s := New(openConfig(newFake()))
	defer s.close()
	s.rules = map[string]Role{pathHealth: Public}
	_, address := serve(t, openConfig(newFake()))
	for _, path := range []string{"/", "/healthz/", "/debug/pprof/", "/simnode.v1.Cluster/", "/simnode.v1.Cluster/Drop", "/simnode.v1.Other/Status", "/metrics/x", "//healthz", "/jobsx"} {
		if code, text, _ := ask(t, "GET", "http://"+address+path, ""); code != 404 || !strings.Contains(text, "there is nothing at") {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	for path := range rules() {
		if path == pathHealth {
			continue
		}
		r, err := http.NewRequest("POST", "http://127.0.0.1"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		w := &deadEnd{header: http.Header{}}
		s.Handler().ServeHTTP(w, r)
		if w.code != http.StatusNotFound {
			t.Errorf("%s without a rule: %d %s", path, w.code, w.body.String())
		}
	}
}

type deadEnd struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (d *deadEnd) Header() http.Header         { return d.header }
func (d *deadEnd) WriteHeader(code int)        { d.code = code }
func (d *deadEnd) Write(p []byte) (int, error) { return d.body.Write(p) }

// Each path, with each kind of caller, by each kind of access.
func TestRoles(t *testing.T) {
	var log bytes.Buffer
	for name, c := range map[string]struct {
		access             Access
		none, read, wrong  Role
		unauthorizedReason string
	}{
		"nothing given": {Access{}, Public, Public, Public, "the node was given neither tokens nor a CA"},
		"tokens":        {Access{Tokens: testTokens(t)}, Public, Read, Public, "this needs a token"},
		"certificates":  {Access{Certificates: true}, Public, Public, Public, "this needs a client certificate"},
		"open":          {Access{Open: true}, Operate, Operate, Operate, ""},
		"open tokens":   {Access{Open: true, Tokens: testTokens(t)}, Operate, Read, Public, ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := openConfig(newFake())
			config.Access, config.Log = c.access, slog.New(slog.NewTextHandler(&log, nil))
			_, address := serve(t, config)
			for path, need := range rules() {
				for token, has := range map[string]Role{"": c.none, readToken: c.read, "wrong-" + operateToken: c.wrong, operateToken[1:]: c.wrong} {
					headers := []string{"Content-Type", "application/json"}
					if token != "" {
						headers = append(headers, "Authorization", "Bearer "+token)
					}
					method := map[bool]string{true: "POST", false: "GET"}[strings.HasPrefix(path, "/simnode")]
					code, text, h := ask(t, method, "http://"+address+path, "{}"[:map[string]int{"POST": 2}[method]], headers...)
					refused := code == 401 || code == 403
					if refused != (has < need) {
						t.Errorf("%s with %q: %d %s", path, token, code, text)
					}
					if code == 401 && h.Get("WWW-Authenticate") != "Bearer" {
						t.Errorf("%s: no challenge", path)
					}
					if code == 401 && token == "" && !strings.Contains(text, c.unauthorizedReason) {
						t.Errorf("%s: %s", path, text)
					}
				}
			}
		})
	}
	if text := log.String(); !strings.Contains(text, "refused") || strings.Contains(text, readToken) || strings.Contains(text, operateToken[1:]) {
		t.Errorf("the log is silent or holds tokens:\n%s", text)
	}
}

// A web page that reaches loopback under its own name, or asks from another origin, gets nothing.
func TestOpenServerAnswersNoWebPage(t *testing.T) {
	f := newFake()
	_, address := serve(t, openConfig(f))
	url := "http://" + address + simnodev1connect.ClusterStopProcedure
	for name, c := range map[string]struct {
		want    int
		headers []string
	}{
		"curl":           {200, nil},
		"localhost":      {200, []string{"Host", "localhost:5"}},
		"six":            {200, []string{"Host", "[::1]:5"}},
		"other name":     {403, []string{"Host", "evil.example:7373"}},
		"almost":         {403, []string{"Host", "127.0.0.1.evil.example"}},
		"other address":  {403, []string{"Host", "192.0.2.1"}},
		"other origin":   {403, []string{"Origin", "https://evil.example"}},
		"cross site":     {403, []string{"Sec-Fetch-Site", "cross-site"}},
		"no bearer name": {200, []string{"Authorization", "Basic xyz"}},
	} {
		code, text, _ := ask(t, "POST", url, `{"job":"job-2"}`, append([]string{"Content-Type", "application/json"}, c.headers...)...)
		if code != c.want {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
	if len(f.moves) != 4 {
		t.Errorf("moves %q", f.moves)
	}
}

func TestTokenFiles(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "there are no tokens; expected lines such as",
		"# nothing\n\n":                    "there are no tokens",
		"read\n":                           "line 1: 1 words; expected a role and a token",
		"\nread a b\n":                     "line 2: 3 words",
		readToken + " read\n":              "line 1: the first word is no role; expected read or operate",
		"read short\n":                     "line 1: the token is not 16 to 256 letters",
		"read " + strings.Repeat("x", 257): "line 1: the token is not 16 to 256 letters",
		"read 0123456789abcdef,\n":         "line 1: the token is not 16 to 256 letters, digits and -._~+/=; make one with",
		"read " + readToken + "\noperate " + readToken:  "line 2: the token is that of line 1",
		strings.Repeat("#", maxTokenFile+1):             "more than 1048576 bytes",
		"read short\nread " + readToken + "\nwrite x\n": "letters, digits and -._~+/=; make one with: openssl rand -hex 32; line 3: the first word is no role",
		strings.Repeat("x\n", 50):                       "line 20: 1 words; expected a role and a token, such as \"operate TOKEN\"; and 30 more lines",
	} {
		_, err := ParseTokens([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), readToken) || strings.Contains(err.Error(), "short") {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	tokens := testTokens(t)
	for text, want := range map[string]Role{readToken: Read, operateToken: Operate, "": 0, readToken + "x": 0, readToken[1:]: 0} {
		if role, ok := tokens.role(text); role != want || ok != (want != 0) {
			t.Errorf("%q: %v", text, role)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v %s", tokens, tokens, tokens, tokens); text != "2 tokens 2 tokens 2 tokens 2 tokens" {
		t.Errorf("tokens print as %s", text)
	}
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte("read "+readToken+"\r\n\toperate\t"+operateToken), 0o600); err != nil {
		t.Fatal(err)
	}
	if tokens, err := LoadTokens(path); err != nil || tokens.String() != "2 tokens" {
		t.Errorf("%v, %v", tokens, err)
	}
	for _, bad := range []string{path + "x", filepath.Dir(path), "/dev/zero"} {
		if _, err := LoadTokens(bad); err == nil || !strings.Contains(err.Error(), bad) || strings.Contains(err.Error(), "tokens: ") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// FuzzTokens: any bytes end in tokens that are all accepted, or in an error that holds none of them.
func FuzzTokens(f *testing.F) {
	f.Add([]byte("read " + readToken + "\n# x\noperate " + operateToken))
	f.Add([]byte("read \x00\nread"))
	f.Fuzz(func(t *testing.T, data []byte) {
		tokens, err := ParseTokens(data)
		if err != nil {
			if len(err.Error()) > 300 || tokens != nil {
				t.Errorf("%v, %v", tokens, err)
			}
			return
		}
		for _, line := range strings.Split(string(data), "\n") {
			words := strings.Fields(line)
			if len(words) == 2 && !strings.HasPrefix(words[0], "#") {
				if role, ok := tokens.role(words[1]); !ok || role.String() != words[0] {
					t.Errorf("%q: %v", line, role)
				}
			}
		}
	})
}

// FuzzLoopback: no host that can be looked up elsewhere counts as loopback.
func FuzzLoopback(f *testing.F) {
	for _, host := range []string{"localhost", "127.0.0.1:80", "[::1]:1", "::1", "127.0.0.1.example.org", "", "[", "::ffff:127.0.0.1", "LOCALHOST:0"} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if loopback(host) && !strings.Contains(strings.ToLower(host), "localhost") && strings.ContainsAny(host, "ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ") {
			t.Errorf("%q is taken for loopback", host)
		}
	})
}
