package railyard

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// asked is one request as it came.
type asked struct {
	method, path string
	query        url.Values
	header       http.Header
	body         string
}

// answer is JSON with its status, or parts of a stream, which then ends, is cut or stays open; nothing at all: the connection is cut.
type answer struct {
	code  int
	json  string
	parts []string
	then  string
}

type fake struct {
	t      *testing.T
	server *httptest.Server
	ended  chan struct{}
	mutex  sync.Mutex
	asked  []asked
	reply  func(one asked, number int) *answer
}

func serve(t *testing.T, reply func(one asked, number int) *answer) *fake {
	f := &fake{t: t, ended: make(chan struct{}), reply: reply}
	f.server = httptest.NewServer(f)
	t.Cleanup(func() {
		close(f.ended)
		f.server.CloseClientConnections()
		f.server.Close()
	})
	return f
}

// inTurn answers one after the other; the last one as often as it is asked for.
func inTurn(answers ...*answer) func(asked, int) *answer {
	return func(_ asked, number int) *answer { return answers[min(number, len(answers))-1] }
}

func refusal(code int, word, reason string) *answer {
	data, _ := json.Marshal(map[string]any{"error": map[string]any{"code": code, "class": word, "reason": reason, "message": reason + " it is"}})
	return &answer{code: code, json: string(data)}
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mutex.Lock()
	one := asked{method: r.Method, path: r.URL.Path, query: r.URL.Query(), header: r.Header.Clone(), body: string(body)}
	f.asked = append(f.asked, one)
	found := f.reply(one, len(f.asked))
	f.mutex.Unlock()
	if found == nil {
		panic(http.ErrAbortHandler)
	}
	if found.parts == nil {
		if found.code != 0 {
			w.WriteHeader(found.code)
		}
		_, _ = io.WriteString(w, found.json)
		return
	}
	flusher := w.(http.Flusher)
	flusher.Flush()
	for _, part := range found.parts {
		_, _ = io.WriteString(w, part)
		flusher.Flush()
	}
	switch found.then {
	case "cut":
		panic(http.ErrAbortHandler)
	case "stay":
		select {
		case <-f.ended:
		case <-r.Context().Done():
		}
	}
}

func (f *fake) requests() []asked {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return append([]asked(nil), f.asked...)
}

// begins is whence each stream was asked for.
func (f *fake) begins() string {
	var found []string
	for _, one := range f.requests() {
		begin := one.query.Get("afterRevision")
		if begin == "" {
			begin = "0"
		}
		found = append(found, begin)
	}
	return strings.Join(found, " ")
}

func (f *fake) address() string { return "https://" + f.server.Listener.Addr().(*net.TCPAddr).String() }

var quick = &RetryPolicy{Attempts: 5, First: time.Millisecond, Longest: 2 * time.Millisecond, Within: 15 * time.Second}

// client is one whose calls go to these servers, without TLS.
func client(t *testing.T, token string, addresses ...string) *Client {
	t.Helper()
	made, err := newClient(&settings{controller: addresses, token: token, tenant: "nlp"}, Options{Retry: quick}, &credentials{plain: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}

func (f *fake) client() *Client { return client(f.t, "", f.address()) }

func row(value any) string {
	data, _ := json.Marshal(value)
	return string(data) + "\n"
}

// shorter has streams have other limits while a test runs.
func shorter(t *testing.T, other limits) {
	changed.Store(&other)
	t.Cleanup(func() { changed.Store(nil) })
}

func equal[T comparable](t *testing.T, found, expected T) {
	t.Helper()
	if found != expected {
		t.Fatalf("found    %v\nexpected %v", found, expected)
	}
}

func good[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}
