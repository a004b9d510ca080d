package railyard

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// live is a client of a running controller, whose configuration RAIL_CONFIG names; left out where RAIL_TEST_LIVE is not set.
func live(t *testing.T, options Options) (*Client, context.Context) {
	t.Helper()
	if os.Getenv("RAIL_TEST_LIVE") == "" {
		t.Skip("no running controller is named")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return good(Connect(options))(t), ctx
}

func failing[E error](t *testing.T, err error) E {
	t.Helper()
	var found E
	if !errors.As(err, &found) {
		t.Fatalf("%T: %v", err, err)
	}
	return found
}

func TestLiveJobs(t *testing.T) {
	api, ctx := live(t, Options{})
	options := SubmitOptions{Nodes: 2, GpusPerNode: 1, Name: "go-first", Labels: map[string]string{"team": "x"}}
	job := good(api.Submit(ctx, Shell("echo out of $RANK; echo err >&2"), options))(t)
	equal(t, good(job.Wait(ctx))(t).Status.Phase, JobStatusPhaseCompleted)
	equal(t, good(job.Logs(ctx, LogOptions{}))(t), "[0] out of 0\n[0] err\n[1] out of 1\n[1] err\n")
	equal(t, good(job.Logs(ctx, LogOptions{Ranks: []int64{1}, Stream: LogChunkStreamStdout}))(t), "out of 1\n")

	follower := good(api.Submit(ctx, Shell("for i in 1 2 3; do echo $i; sleep 0.1; done"), SubmitOptions{}))(t).FollowLogs(LogOptions{})
	var text strings.Builder
	for {
		one, err := follower.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		text.Write(good(one, err)(t).Data)
	}
	equal(t, text.String(), "1\n2\n3\n")

	failed := good(api.Submit(ctx, Shell("exit 3"), SubmitOptions{}))(t)
	_, err := failed.Wait(ctx)
	if e := failing[*JobFailedError](t, err); !strings.Contains(e.Error(), "status 3") {
		t.Fatal(e)
	}

	jobs := good(api.Jobs.ListAll(ctx, &ListJobsParams{PageSize: 1}))(t)
	names := map[string]bool{}
	for _, one := range jobs {
		names[one.Metadata.Name] = true
	}
	if !names["go-first"] || len(names) != len(jobs) || len(jobs) < 3 {
		t.Fatal(names)
	}
	page := good(api.Jobs.List(ctx, &ListJobsParams{PageSize: 1}))(t)
	if len(page.Jobs) != 1 || page.NextPageToken == "" {
		t.Fatal(page)
	}

	_, err = api.Submit(ctx, Shell("true"), SubmitOptions{Spec: &JobSpec{Gang: &Gang{Nodes: -1}}})
	if e := failing[*InvalidRequestError](t, err); len(e.Violations) == 0 || e.Violations[0].Field != "spec.gang.nodes" {
		t.Fatal(e, e.Violations)
	}
	_, err = api.Submit(ctx, Shell("true"), SubmitOptions{Name: "go-first"})
	failing[*AlreadyExistsError](t, err)
	_, err = api.Job(ctx, "nothing", "")
	equal(t, failing[*NotFoundError](t, err).Reason, "JOB_NOT_FOUND")

	sleeper := good(api.Submit(ctx, Shell("sleep 300"), SubmitOptions{Name: "go-sleeper"}))(t)
	good(sleeper.WaitFor(ctx, JobStatusPhaseRunning))(t)
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if _, err := sleeper.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	good(sleeper.Cancel(ctx, "1s"))(t)
	_, err = sleeper.Wait(ctx)
	equal(t, failing[*JobFailedError](t, err).Phase, JobStatusPhaseCancelled)
	if err := sleeper.Delete(ctx); err != nil {
		t.Fatal(err)
	}
	_, err = sleeper.Refresh(ctx)
	failing[*NotFoundError](t, err)
}

// cutting passes TLS on, and cuts all connections when it is asked to.
type cutting struct {
	listener net.Listener
	mutex    sync.Mutex
	open     []net.Conn
}

func cutter(t *testing.T, to string) *cutting {
	c := &cutting{listener: good(net.Listen("tcp", "127.0.0.1:0"))(t)}
	t.Cleanup(func() { c.listener.Close(); c.cut() })
	go func() {
		for {
			near, err := c.listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			c.mutex.Lock()
			c.open = append(c.open, near, far)
			c.mutex.Unlock()
			pass := func(a, b net.Conn) { _, _ = io.Copy(a, b); a.Close(); b.Close() }
			go pass(near, far)
			go pass(far, near)
		}
	}()
	return c
}

func (c *cutting) cut() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	count := len(c.open)
	for _, one := range c.open {
		one.Close()
	}
	c.open = nil
	return count
}

func TestLiveAWatchWhoseConnectionIsCutLosesNothing(t *testing.T) {
	direct, ctx := live(t, Options{})
	var to string
	for _, one := range good(load(Options{}, environment()))(t).controller {
		if address, err := url.Parse(one); err == nil && address.Scheme == "https" {
			to = address.Host
		}
	}
	proxy := cutter(t, to)
	api, _ := live(t, Options{Controller: []string{"https://" + proxy.listener.Addr().String()}, Retry: quick})
	w := api.Jobs.Watch(nil)
	defer w.Close()
	for good(w.Next(ctx))(t).Type != "SYNCED" {
	}
	made, seen := map[string]bool{}, map[string]bool{}
	for round := 0; round < 3; round++ {
		// Changed while nothing is connected, and while it is.
		if proxy.cut() < 2 {
			t.Fatal("there was no connection to cut")
		}
		for number := 0; number < 2; number++ {
			name := fmt.Sprintf("go-cut-%d-%d", round, number)
			good(direct.Submit(ctx, Shell("true"), SubmitOptions{Name: name}))(t)
			made[name] = true
		}
		for len(made) > 0 {
			one := good(w.Next(ctx))(t)
			if one.Job == nil {
				continue
			}
			key := fmt.Sprintf("%s %s %d", one.Type, one.Job.Metadata.Name, one.Job.Metadata.ResourceVersion)
			if seen[key] {
				t.Fatalf("%s was given twice", key)
			}
			seen[key] = true
			if one.Job.Status.Phase == JobStatusPhaseCompleted {
				delete(made, one.Job.Metadata.Name)
			}
		}
	}
}

func outcomes(changes *Changes) string {
	var found []string
	for _, one := range changes.All {
		found = append(found, string(one.Outcome))
	}
	return strings.Join(found, " ")
}

func TestLiveApply(t *testing.T) {
	api, ctx := live(t, Options{})
	queue := &Queue{Kind: "Queue", Metadata: &Metadata{Name: "go-night"}, Spec: &QueueSpec{Weight: Ptr[int64](2)}}
	spec := JobSpec{Gang: &Gang{Nodes: 1}, Rails: &RailRequest{None: true}, TimeLimit: "5m", Command: &Command{Argv: []string{"true"}}}
	job := &Job{Kind: "Job", Metadata: &Metadata{Name: "go-applied"}, Spec: &spec}
	secret := map[string]any{"kind": "Secret", "metadata": map[string]any{"name": "go-key"}, "data": map[string]any{"a": "not shown"}}
	all := []any{queue, job, secret}
	plan := good(api.Apply(ctx, all, ApplyOptions{DryRun: true}))(t)
	equal(t, outcomes(plan), "CREATED CREATED CREATED")
	if text := plan.String() + plan.All[0].Diff() + plan.All[2].Diff(); strings.Contains(text, "not shown") {
		t.Fatal(text)
	}
	_, err := api.Queues.Get(ctx, "go-night", nil)
	failing[*NotFoundError](t, err)
	equal(t, outcomes(good(api.Apply(ctx, all, ApplyOptions{}))(t)), "CREATED CREATED CREATED")
	again := good(api.Apply(ctx, all, ApplyOptions{DryRun: true}))(t)
	if again.Changed() {
		t.Fatal(again)
	}
	queue.Spec.Weight = Ptr[int64](5)
	difference := good(api.Apply(ctx, []any{queue}, ApplyOptions{DryRun: true}))(t).All[0]
	equal(t, fmt.Sprint(difference.Fields()), "[{spec.weight 2 5}]")
	if !strings.Contains(difference.Diff(), "-    \"weight\": 2\n+    \"weight\": 5\n") {
		t.Fatal(difference.Diff())
	}
	good(api.Apply(ctx, []any{queue}, ApplyOptions{}))(t)
	equal(t, *good(api.Queues.Get(ctx, "go-night", nil))(t).Spec.Weight, 5)

	spec.TimeLimit = "6m"
	never := &Queue{Kind: "Queue", Metadata: &Metadata{Name: "go-never"}}
	_, err = api.Apply(ctx, []any{never, job}, ApplyOptions{})
	failing[*ApplyRefusedError](t, err)
	_, err = api.Queues.Get(ctx, "go-never", nil)
	failing[*NotFoundError](t, err)
}

// another is the path of an authority's certificate that has not signed the controller's.
func another(t *testing.T) string {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der := good(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLiveIdentities(t *testing.T) {
	api, ctx := live(t, Options{})
	equal(t, good(api.Health.Get(ctx, nil))(t).NodesReady, 2)
	found := good(load(Options{}, environment()))(t)
	for _, one := range found.controller {
		other, _ := live(t, Options{Controller: []string{one}})
		equal(t, good(other.Health.Get(ctx, nil))(t).NodesReady, 2)
	}
	issued := good(api.Tenants.IssueToken(ctx, &IssueTokenParams{Tenant: "dev", User: "ann", Role: "USER"}))(t)
	ann, _ := live(t, Options{Token: issued.Token})
	equal(t, good(ann.Tenants.WhoAmI(ctx, nil))(t).User, "ann")
	_, err := ann.Tenants.Apply(ctx, &Tenant{Metadata: &Metadata{Name: "mine"}}, nil)
	failing[*PermissionDeniedError](t, err)
	nobody, _ := live(t, Options{Token: "rail-user-v1." + strings.Repeat("0", 16) + "." + strings.Repeat("1", 64)})
	_, err = nobody.Jobs.List(ctx, nil)
	if e := failing[*UnauthenticatedError](t, err); strings.Contains(e.Error(), "1111") {
		t.Fatal(e)
	}
	untrusted, _ := live(t, Options{CA: another(t)})
	_, err = untrusted.Health.Get(ctx, nil)
	equal(t, failing[*TlsError](t, err).Reason, "CERTIFICATE_NOT_TRUSTED")
}
