package railyard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"
)

type about struct {
	kind, uid, phase string
	revision         int
}

// put is an event of a job; its revision is its version unless `more` says one.
func put(name string, version int, more about) string {
	if more.kind == "" {
		more.kind = "PUT"
	}
	if more.uid == "" {
		more.uid = "u"
	}
	if more.phase == "" {
		more.phase = "RUNNING"
	}
	if more.revision == 0 {
		more.revision = version
	}
	metadata := map[string]any{"name": name, "tenant": "nlp", "uid": more.uid, "resourceVersion": strconv.Itoa(version)}
	job := map[string]any{"metadata": metadata, "status": map[string]any{"phase": more.phase}}
	return row(map[string]any{"type": more.kind, "job": job, "revision": strconv.Itoa(more.revision)})
}

func synced(revision int) string {
	return row(map[string]any{"type": "SYNCED", "revision": strconv.Itoa(revision)})
}

func stream(then string, parts ...string) *answer { return &answer{parts: parts, then: then} }

func show(one *JobEvent) string {
	if one.Job == nil {
		return string(one.Type)
	}
	return fmt.Sprintf("%s %s:%d", one.Type, one.Job.Metadata.Name, one.Job.Metadata.ResourceVersion)
}

func take(t *testing.T, w *Watch[JobEvent], count int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var found []string
	for len(found) < count {
		found = append(found, show(good(w.Next(ctx))(t)))
	}
	return strings.Join(found, ", ")
}

// watched checks the events of a watch that is answered so, whence each stream begins, and the watch's revision.
func watched(t *testing.T, events, begins string, revision Uint64, answers ...*answer) {
	t.Helper()
	f := serve(t, inTurn(answers...))
	w := f.client().Jobs.Watch(nil)
	defer w.Close()
	equal(t, take(t, w, strings.Count(events, ",")+1), events)
	equal(t, f.begins(), begins)
	equal(t, w.Revision(), revision)
}

func TestALostWatchIsResumedBehindWhatWasGiven(t *testing.T) {
	watched(t, "PUT a:4, SYNCED, PUT a:6", "0 5 5 5", 5,
		stream("", put("a", 4, about{}), synced(5)), nil, refusal(503, "unavailable", "NO_LEADER"),
		stream("stay", synced(5), put("a", 6, about{})))
}

func TestASnapshotThatIsLostBeginsAnew(t *testing.T) {
	// In the order of names: a changed last, and b is not given before the stream is lost.
	a, b, c := put("a", 4, about{}), put("b", 2, about{}), put("c", 3, about{})
	watched(t, "PUT a:4, PUT b:2, PUT c:3, SYNCED", "0 0", 5, stream("cut", a), stream("stay", a, b, c, synced(5)))
}

func TestARevisionThatChangedMuchIsGivenWhole(t *testing.T) {
	gone := put("g", 1, about{kind: "DELETE", revision: 7})
	a, b, c := put("a", 7, about{}), put("b", 7, about{}), put("c", 8, about{})
	watched(t, "PUT g:1, SYNCED, DELETE g:1, PUT a:7, PUT b:7, PUT c:8", "0 6", 7,
		stream("", put("g", 1, about{}), synced(5), gone, a), stream("stay", synced(5), gone, a, b, c))
}

func TestWhatVanishedWhileNobodyWatchedIsDeleted(t *testing.T) {
	a, young := put("a", 4, about{}), put("b", 8, about{uid: "another"})
	watched(t, "PUT a:4, PUT b:3, PUT c:2, SYNCED, DELETE b:3, PUT b:8, DELETE c:2, PUT d:10", "0 5 0 0 9", 9,
		stream("", a, put("b", 3, about{}), put("c", 2, about{}), synced(5)),
		refusal(410, "gone", "REVISION_COMPACTED"),
		// Lost before it is complete: c may still come.
		stream("cut", a, young),
		stream("", a, young, synced(9)),
		stream("stay", synced(9), put("d", 10, about{})))
}

func TestASilentStreamIsOpenedAnew(t *testing.T) {
	shorter(t, limits{away: time.Minute, silent: 200 * time.Millisecond, steady: 5 * time.Second})
	watched(t, "PUT a:4, SYNCED, PUT a:6", "0 0 5", 5,
		stream("stay", put("a", 4, about{})), stream("stay", put("a", 4, about{}), synced(5)), stream("stay", synced(5), put("a", 6, about{})))
}

func TestAnErrorInTheStreamIsAnError(t *testing.T) {
	last := `{"error":{"code":403,"class":"denied","reason":"REVOKED","message":"no"}}` + "\n"
	w := serve(t, inTurn(stream("", synced(5), last))).client().Jobs.Watch(nil)
	take(t, w, 1)
	_, err := w.Next(context.Background())
	var denied *PermissionDeniedError
	if !errors.As(err, &denied) || denied.Reason != "REVOKED" {
		t.Fatal(err)
	}
}

func TestAWatchIsEndedByCloseAndItsCallsByTheirContext(t *testing.T) {
	f := serve(t, inTurn(stream("stay", synced(5))))
	w := f.client().Jobs.Watch(nil)
	take(t, w, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := w.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := w.Next(context.Background())
		ended <- err
	}()
	time.AfterFunc(50*time.Millisecond, w.Close)
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	events, why := f.client().Jobs.Watch(nil).Events(ctx)
	for range events {
	}
	if !errors.Is(why(), context.DeadlineExceeded) {
		t.Fatal(why())
	}
	count := 0
	f.client().Jobs.Watch(nil).All(context.Background())(func(one *JobEvent, err error) bool {
		count++
		return false
	})
	equal(t, count, 1)
}

func TestCloseWakesWhoOpensAWatchAndWhoWaitsBeforeThat(t *testing.T) {
	for _, opens := range []bool{true, false} {
		came, held := make(chan struct{}, 8), make(chan struct{})
		f := serve(t, func(asked, int) *answer {
			came <- struct{}{}
			if opens {
				<-held
			}
			return nil
		})
		api := f.client()
		api.core.retry.First, api.core.retry.Longest = time.Hour, time.Hour
		w := api.Jobs.Watch(nil)
		ended := make(chan error)
		go func() {
			_, err := w.Next(context.Background())
			ended <- err
		}()
		<-came
		w.Close()
		if err := <-ended; !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		close(held)
	}
}

func TestAControllerThatStaysAwayEndsAWatch(t *testing.T) {
	shorter(t, limits{away: 50 * time.Millisecond, silent: time.Minute, steady: time.Minute})
	_, err := serve(t, inTurn(nil)).client().Jobs.Watch(nil).Next(context.Background())
	var away *UnavailableError
	if !errors.As(err, &away) {
		t.Fatal(err)
	}
}

// waiting gives a running job, then these streams.
func waiting(t *testing.T, streams ...*answer) *JobHandle {
	t.Helper()
	job := &answer{json: `{"metadata":{"name":"a","tenant":"nlp","uid":"u"},"status":{"phase":"RUNNING"}}`}
	f := serve(t, inTurn(append([]*answer{job}, streams...)...))
	return good(f.client().Job(context.Background(), "a", ""))(t)
}

func TestAWaitEndsWithTheJobOfItsUID(t *testing.T) {
	job := waiting(t, stream("", put("a", 4, about{phase: "FAILED", uid: "earlier"}), put("a", 5, about{}), synced(5), put("a", 6, about{phase: "COMPLETED"})))
	equal(t, good(job.Wait(context.Background()))(t).Status.Phase, JobStatusPhaseCompleted)
	_, err := waiting(t, stream("", put("a", 5, about{phase: "FAILED"}))).Wait(context.Background())
	var failed *JobFailedError
	if !errors.As(err, &failed) || failed.Phase != JobStatusPhaseFailed {
		t.Fatal(err)
	}
}

func TestAWaitForAJobThatIsDeleted(t *testing.T) {
	begun, gone := stream("", put("a", 5, about{}), synced(5)), refusal(410, "gone", "REVISION_COMPACTED")
	unnamed := `{"type":"DELETE","job":{"metadata":{"name":"a","tenant":"nlp"}},"revision":"7"}` + "\n"
	for i, streams := range [][]*answer{
		{stream("", put("a", 5, about{}), synced(5), put("a", 7, about{kind: "DELETE"}))},
		{stream("", synced(5))},
		{begun, gone, stream("stay", synced(5))},
		{begun, gone, stream("stay", put("a", 8, about{uid: "another"}), synced(9))},
		{stream("stay", put("a", 5, about{}), synced(5), unnamed)},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		_, err := waiting(t, streams...).Wait(ctx)
		cancel()
		var deleted *NotFoundError
		if !errors.As(err, &deleted) {
			t.Fatalf("%d: %v", i, err)
		}
	}
}

func chunk(rank int, text, stream string) string {
	return row(map[string]any{"rank": rank, "stream": stream, "data": []byte(text)})
}

func TestLogsAreTextRankAfterRank(t *testing.T) {
	logs := stream("", chunk(1, "b\nbb", "STDOUT"), chunk(0, "a\n", "STDOUT"), chunk(0, "dropped", "NOTE"), chunk(1, "b\n", "STDOUT"), chunk(0, "e\n", "STDERR"))
	job := waiting(t, logs)
	equal(t, good(job.Logs(context.Background(), LogOptions{}))(t), "[0] a\n[0] e\n[1] b\n[1] bbb\n")
	equal(t, good(job.Logs(context.Background(), LogOptions{Stream: "STDERR", Ranks: []int64{0}}))(t), "e\n")
}

func state(attempt int, phase string) string {
	past := []map[string]int{}
	for one := 1; one < attempt; one++ {
		past = append(past, map[string]int{"attempt": one})
	}
	status := map[string]any{"phase": phase, "attempt": attempt, "pastAttempts": past}
	return row(map[string]any{"metadata": map[string]any{"name": "a"}, "status": status})
}

// followed checks what is given of logs that come so, and by which parameters each stream was asked for. states are those of the job.
func followed(t *testing.T, text, parameters string, states []string, streams ...*answer) {
	t.Helper()
	var opened []string
	f := serve(t, func(one asked, _ int) *answer {
		if !strings.HasSuffix(one.path, "/logs") {
			next := states[0]
			if len(states) > 1 {
				states = states[1:]
			}
			return &answer{json: next}
		}
		opened = append(opened, one.query.Get("follow")+one.query.Get("attempt"))
		return streams[len(opened)-1]
	})
	follower := good(f.client().Job(context.Background(), "a", ""))(t).FollowLogs(LogOptions{})
	var found strings.Builder
	for {
		one, err := follower.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		found.Write(good(one, err)(t).Data)
	}
	equal(t, found.String(), text)
	equal(t, strings.Join(opened, " "), parameters)
}

func TestFollowedLogsThatWereLostGoOnWhereTheyWere(t *testing.T) {
	first, second := state(1, "RUNNING"), state(2, "RUNNING")
	followed(t, "one\ntwo\nthree\n", "true true", []string{first, first, first, first, state(1, "COMPLETED")},
		stream("cut", chunk(0, "one\ntw", "STDOUT")), stream("", chunk(0, "one\n", "STDOUT"), chunk(0, "two\nthree\n", "STDOUT")))
	// A later attempt, which begins with the same, is not taken for the one that was lost.
	followed(t, "begin 1\nend 1\nbegin 2\nend 2\n", "true 1 true", []string{first, first, second, second, state(2, "COMPLETED")},
		stream("cut", chunk(0, "begin 1\n", "STDOUT")), stream("", chunk(0, "begin 1\nend 1\n", "STDOUT")), stream("", chunk(0, "begin 2\nend 2\n", "STDOUT")))
}
