package railyard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var ctx = context.Background()

func TestASubmitIsSentWithTheTenantAndOneRequestID(t *testing.T) {
	job := &answer{json: `{"metadata":{"name":"a","tenant":"nlp","uid":"u"}}`}
	f := serve(t, inTurn(nil, nil, job))
	options := SubmitOptions{Nodes: 2, GpusPerNode: 1, Spec: &JobSpec{Gang: &Gang{MinNodes: 1}, Queue: "q"}}
	made := good(f.client().Submit(ctx, Shell("true"), options))(t)
	equal(t, made.String(), "nlp/a")
	ids := map[string]bool{}
	for _, one := range f.requests() {
		ids[one.query.Get("requestId")] = true
	}
	first := f.requests()[0]
	if len(ids) != 1 || first.method != "POST" || first.query.Get("onBehalfOf") != "nlp" || first.header.Get("Grpc-Timeout") != "30000m" {
		t.Fatal(ids, first)
	}
	expected := `{"command":{"argv":["/bin/sh","-c","true"]},"gang":{"gpusPerNode":1,"minNodes":1,"nodes":2},"queue":"q"}`
	var body struct{ Spec any }
	if err := json.Unmarshal([]byte(first.body), &body); err != nil {
		t.Fatal(err)
	}
	data, _ := json.Marshal(body.Spec)
	equal(t, string(data), expected)
}

func TestOnlyOneServerWithoutGPUsHasNoRailsWhenAllIsMerged(t *testing.T) {
	for _, one := range []struct {
		options SubmitOptions
		none    bool
	}{
		{SubmitOptions{}, true},
		{SubmitOptions{Spec: &JobSpec{Queue: "q"}}, true},
		{SubmitOptions{Nodes: 2, Spec: &JobSpec{Gang: &Gang{Nodes: 1}}}, true},
		{SubmitOptions{Spec: &JobSpec{Gang: &Gang{Nodes: 2}}}, false},
		{SubmitOptions{Spec: &JobSpec{Gang: &Gang{GpusPerNode: 8}}}, false},
		{SubmitOptions{Spec: &JobSpec{Rails: &RailRequest{}}}, false},
	} {
		rails := good(describe([]string{"true"}, one.options))(t).Spec.Rails
		if (rails != nil && rails.None) != one.none {
			t.Fatal(one, rails)
		}
	}
}

func TestWhatWouldBeDoneTwiceIsNotSentAgain(t *testing.T) {
	f := serve(t, inTurn(nil))
	_, err := f.client().Tenants.IssueToken(ctx, &IssueTokenParams{User: "ann", Role: "USER"})
	var lost *UnavailableError
	if !errors.As(err, &lost) || len(f.requests()) != 1 {
		t.Fatal(err, len(f.requests()))
	}
}

func TestWhatWasNotSentGoesToTheNextController(t *testing.T) {
	f := serve(t, inTurn(&answer{json: `{"id":"t"}`}))
	api := client(t, "", "https://127.0.0.1:1", f.address())
	for i := 0; i < 2; i++ {
		good(api.Tenants.IssueToken(ctx, &IssueTokenParams{User: "ann", Role: "USER"}))(t)
	}
	_, err := client(t, "", "https://127.0.0.1:1").Tenants.IssueToken(ctx, nil)
	var away *UnavailableError
	if !errors.As(err, &away) || away.Reason != "UNREACHABLE" {
		t.Fatal(err)
	}
}

func TestOfSeveralFailuresTheOneThatMayGoWellCounts(t *testing.T) {
	cut, untrusted := serve(t, inTurn(nil)), &notSent{where: "b", reason: "CERTIFICATE_NOT_TRUSTED", err: errors.New("unknown")}
	for _, first := range []int32{0, 1} {
		api := client(t, "", cut.address(), "https://b:1")
		other := api.core.endpoints[1]
		refuse := func(context.Context, string, string) (net.Conn, error) { return nil, untrusted }
		other.kept, other.fresh = &http.Transport{DialTLSContext: refuse}, &http.Transport{DialTLSContext: refuse}
		api.core.first.Store(first)
		api.core.retry.Attempts = 1
		_, err := api.Health.Get(ctx, nil)
		var lost *UnavailableError
		if !errors.As(err, &lost) || lost.Reason != "CONNECTION_LOST" {
			t.Fatalf("%T %v", err, err)
		}
	}
}

func TestThePolicyOfRetries(t *testing.T) {
	away := made("unavailable", APIError{})
	late := made("overloaded", APIError{RetryAfter: 500 * time.Millisecond, retries: true})
	for _, one := range []struct {
		made    int
		elapsed time.Duration
		err     error
		wait    time.Duration
		again   bool
	}{
		{1, 0, away, 75 * time.Millisecond, true},
		{2, 0, away, 150 * time.Millisecond, true},
		{5, 0, away, 0, false},
		{1, 0, late, 550 * time.Millisecond, true},
		{1, 14900 * time.Millisecond, late, 550 * time.Millisecond, false},
		{1, 0, made("overloaded", APIError{}), 0, false},
		{1, 0, made("not-found", APIError{}), 0, false},
	} {
		wait, again := DefaultRetry.wait(one.made, one.elapsed, one.err, 0.5)
		if wait != one.wait || again != one.again {
			t.Fatal(one, wait, again)
		}
	}
}

func TestErrorsHaveClassesReasonsAndFields(t *testing.T) {
	violations := `{"error":{"code":400,"class":"invalid","reason":"INVALID_BODY","message":"no","violations":[{"field":"spec.gang","message":"no"}]}}`
	for _, one := range []struct {
		answer *answer
		kind   any
		code   int
	}{
		{&answer{code: 400, json: violations}, new(*InvalidRequestError), 400},
		{refusal(404, "not-found", "JOB_NOT_FOUND"), new(*NotFoundError), 404},
		{refusal(409, "conflict", "VERSION"), new(*ConflictError), 409},
		{refusal(418, "from-a-later-release", "X"), new(*InvalidRequestError), 418},
		{&answer{code: 404, json: "no error of the API"}, new(*NotFoundError), 404},
	} {
		_, err := serve(t, inTurn(one.answer)).client().Jobs.Get(ctx, "a", nil)
		var e *APIError
		if !errors.As(err, one.kind) || !errors.As(err, &e) || e.Code != one.code || e.Operation != "getJob" {
			t.Fatalf("%T %v", err, err)
		}
		if e.Code == 400 && !reflect.DeepEqual(e.Violations, []Violation{{"spec.gang", "no"}}) {
			t.Fatal(e.Violations)
		}
	}
	for _, one := range classes {
		if one.word != "internal" && one.word != "unauthenticated" && classOf(one.word).name != one.name {
			t.Fatal(one)
		}
	}
}

func TestACallIsEndedByItsLimitAndItsContext(t *testing.T) {
	f := serve(t, inTurn(stream("stay", " ")))
	api := f.client()
	api.core.timeout = 50 * time.Millisecond
	_, err := api.Jobs.Get(ctx, "a", nil)
	var late *DeadlineExceededError
	if !errors.As(err, &late) {
		t.Fatal(err)
	}
	ending, cancel := context.WithCancel(ctx)
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := f.client().Jobs.Get(ending, "a", nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestAListComesPageByPage(t *testing.T) {
	f := serve(t, inTurn(
		&answer{json: `{"jobs":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}],"nextPageToken":"t"}`},
		&answer{json: `{"nextPageToken":"u"}`}, &answer{json: `{"jobs":[{"metadata":{"name":"c"}}]}`}))
	jobs := good(f.client().Jobs.ListAll(ctx, &ListJobsParams{Phases: []JobStatusPhase{"RUNNING", "PENDING"}}))(t)
	equal(t, fmt.Sprintf("%d %s", len(jobs), jobs[2].Metadata.Name), "3 c")
	tokens := ""
	for _, one := range f.requests() {
		tokens += one.query.Get("pageToken") + one.query.Get("phases") + ";"
	}
	equal(t, tokens, "RUNNING,PENDING;tRUNNING,PENDING;uRUNNING,PENDING;")
}

func TestFieldsKnowAbsentFromZero(t *testing.T) {
	f := serve(t, inTurn(&answer{json: `{"metadata":{"resourceVersion":"18446744073709551615"}}`}))
	job := good(f.client().Jobs.Update(ctx, "a", &UpdateJobParams{Priority: Ptr[int64](0)}))(t)
	equal(t, job.Metadata.ResourceVersion, 18446744073709551615)
	var body map[string]any
	if err := json.Unmarshal([]byte(f.requests()[0].body), &body); err != nil {
		t.Fatal(err)
	}
	delete(body, "requestId")
	equal(t, fmt.Sprint(body), "map[priority:0 tenant:nlp]")
}

func TestADryRunSaysWhatWouldChange(t *testing.T) {
	meant := `{"kind":"Queue","metadata":{"name":"night","tenant":"nlp"},"spec":{"weight":5}}`
	is := `{"kind":"Queue","metadata":{"name":"night","tenant":"nlp","uid":"u"},"spec":{"weight":2},"status":{}}`
	f := serve(t, func(one asked, _ int) *answer {
		if strings.HasSuffix(one.path, ":plan") {
			return &answer{json: `{"documents":[{"outcome":"CHANGED","document":{"queue":` + meant + `}}]}`}
		}
		return &answer{json: is}
	})
	queue := &Queue{Kind: "Queue", Metadata: &Metadata{Name: "night"}, Spec: &QueueSpec{Weight: Ptr[int64](5)}}
	plan := good(f.client().Apply(ctx, []any{queue}, ApplyOptions{DryRun: true}))(t)
	equal(t, plan.String(), "queue/nlp/night changed\n  spec.weight: 2 -> 5")
	if diff := plan.All[0].Diff(); !strings.HasPrefix(diff, "--- queue/nlp/night as it is\n+++ queue/nlp/night\n@@ -5,6 +5,6 @@\n") {
		t.Fatal(diff)
	}
	equal(t, f.requests()[0].body, `{"documents":[{"queue":`+meant+`}],"onBehalfOf":"nlp"}`)
	refused := `{"documents":[{"outcome":"REFUSED","refusal":{"code":400,"class":"invalid","reason":"X","message":"no"}}]}`
	f = serve(t, inTurn(&answer{json: refused}))
	_, err := f.client().Apply(ctx, []any{queue}, ApplyOptions{})
	var nothing *ApplyRefusedError
	if !errors.As(err, &nothing) || len(f.requests()) != 1 || !strings.Contains(err.Error(), "no [X]") {
		t.Fatal(err)
	}
	_, err = f.client().Apply(ctx, []any{map[string]any{"kind": "Queu"}}, ApplyOptions{})
	if err == nil || !strings.Contains(err.Error(), "kind `Queu` is not made by a document; Config, ") {
		t.Fatal(err)
	}
}

func TestDifferencesAreThoseOfDiff(t *testing.T) {
	var numbers, others []string
	for i := 0; i < 20; i++ {
		numbers = append(numbers, fmt.Sprint(i))
		if i != 15 {
			others = append(others, strings.Replace(fmt.Sprint(i), "3", "three", 1))
		}
	}
	others[13] = "13"
	expected := "--- a\n+++ b\n@@ -1,7 +1,7 @@\n 0\n 1\n 2\n-3\n+three\n 4\n 5\n 6\n@@ -13,7 +13,6 @@\n 12\n 13\n 14\n-15\n 16\n 17\n 18\n"
	equal(t, unified(numbers, others, "a", "b"), expected)
	equal(t, unified(nil, []string{"x"}, "a", "b"), "--- a\n+++ b\n@@ -0,0 +1 @@\n+x\n")
	equal(t, unified(numbers, numbers, "a", "b"), "")
}

const config = `# Where railctl finds clusters.
currentContext: "dev"
contexts:
  "dev":
    controller: ["unix:/run/c.sock", "https://127.0.0.1:7443"]   # two
    ca: ca.pem
    cert: '/etc/admin.pem'
    key: /etc/admin.key
    tenant: "it's"
  other:
    controller:
    - https://other:7443
    ca: /ca.pem
`

func file(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSettingsAreFoundAsRailctlFindsThem(t *testing.T) {
	path := file(t, config)
	dev := good(load(Options{Config: path}, nil))(t)
	ca := filepath.Join(filepath.Dir(path), "ca.pem")
	expected := &settings{[]string{"unix:/run/c.sock", "https://127.0.0.1:7443"}, ca, "/etc/admin.pem", "/etc/admin.key", "", "it's"}
	if !reflect.DeepEqual(dev, expected) {
		t.Fatal(dev)
	}
	token := "rail-user-v1." + strings.Repeat("a", 16) + "." + strings.Repeat("b", 64)
	env := map[string]string{"RAIL_CONFIG": path, "RAIL_TOKEN": token, "RAIL_TENANT": "x"}
	other := good(load(Options{Context: "other"}, env))(t)
	if !reflect.DeepEqual(other, &settings{[]string{"https://other:7443"}, "/ca.pem", "", "", token, "x"}) {
		t.Fatal(other)
	}
}

func TestWhatCannotBeUsedIsNamedAndNoTokenIsShown(t *testing.T) {
	path := file(t, config)
	for _, one := range []struct {
		options  Options
		expected string
	}{
		{Options{Config: filepath.Join(t.TempDir(), "none")}, "no controller is known"},
		{Options{Config: path, Context: "prod"}, "no context `prod`; there are: dev, other"},
		{Options{Config: path, Cert: "/x"}, "the key is not given"},
		{Options{Config: path, Token: "secret and more"}, "not a token"},
		{Options{Config: path, Token: "rail-user-v1.secret"}, "not a token: expected"},
		{Options{Config: file(t, "contexts:\n  a:\n    tokn: secret\n")}, "context `a`: unknown field `tokn`, expected one of"},
		{Options{Config: file(t, "contexts:\n  a: [secret\n")}, "config.yaml:2: a list in brackets"},
		{Options{Config: file(t, "contexts:\n  a:\n    token: |\n      secret\n")}, "config.yaml:3: only texts and lists"},
	} {
		_, err := load(one.options, nil)
		var wrong *ConfigError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), one.expected) || strings.Contains(err.Error(), "secret") {
			t.Fatalf("%v, expected %s", err, one.expected)
		}
	}
	secret := "rail-user-v1." + strings.Repeat("0", 16) + "." + strings.Repeat("1", 64)
	_, err := client(t, secret, "https://127.0.0.1:1").Health.Get(ctx, nil)
	if err == nil || strings.Contains(fmt.Sprintf("%+v %#v", err, err), "1111") {
		t.Fatal(err)
	}
	for _, scheme := range []string{"https", "http"} {
		if _, err := parseEndpoint(scheme + "://user:" + secret + "@a:1"); err == nil || strings.Contains(err.Error(), "1111") {
			t.Fatal(err)
		}
	}
}

func TestTheLittleYAMLOfConfigurationFiles(t *testing.T) {
	found := good(parseYAML("a: x # y\nb: 'it''s'\nc: \"\\u00e4\"\nd:\n- 1\n- '2'\n", "f"))(t)
	if !reflect.DeepEqual(found, map[string]any{"a": "x", "b": "it's", "c": "ä", "d": []any{"1", "2"}}) {
		t.Fatal(found)
	}
	for _, text := range []string{"a: 1\na: 2", "\ta: 1", "a", "a: 'x", "a: &b c", "a: 1\n  b: 2", "a: [b] c", `a: "b" c`} {
		if found, err := parseYAML(text, "f"); err == nil {
			t.Fatalf("%q is %v", text, found)
		}
	}
}
