package railyard

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// limits of streams.
type limits struct {
	// away: a connection that cannot be had again for so long ends a watch.
	away time.Duration
	// silent: a stream on which nothing came for so long is opened anew: nothing is lost by it.
	silent time.Duration
	// steady: a stream that lived for so long was a good connection, whether or not something came.
	steady time.Duration
}

var standing = limits{away: time.Minute, silent: 5 * time.Minute, steady: 5 * time.Second}

// changed limits are those of tests.
var changed atomic.Pointer[limits]

func limitsNow() limits {
	if other := changed.Load(); other != nil {
		return *other
	}
	return standing
}

// resumer decides when a stream that was lost is opened again, and where it begins.
type resumer struct {
	core *core
	// revision: all changes up to it were given, so that a stream may go on behind it; 0: with the present state.
	revision  atomic.Uint64
	failures  int
	awaySince time.Time
	openedAt  time.Time
}

// opened notes that there is a stream again.
func (r *resumer) opened() { r.openedAt = time.Now() }

// arrived notes that something arrived: the connection works. forward: the next stream will go on behind it, and not say it again.
func (r *resumer) arrived(forward bool) {
	r.awaySince = time.Time{}
	if forward {
		r.failures = 0
	}
}

// reached notes that all changes up to this revision were given.
func (r *resumer) reached(revision uint64) {
	if revision > r.revision.Load() {
		r.revision.Store(revision)
	}
}

// lost waits before the next attempt, or gives the error that ends the stream. nil: it has ended well.
func (r *resumer) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	limits := limitsNow()
	if !r.openedAt.IsZero() && time.Since(r.openedAt) >= limits.steady {
		r.failures, r.awaySince = 0, time.Time{}
	}
	r.openedAt = time.Time{}
	switch {
	case err == nil:
	case is(err, "gone"):
		// The revision is too old to be resumed: begin with the present state.
		r.revision.Store(0)
	case !is(err, "unavailable", "overloaded", "internal", "cancelled", "timeout"):
		return err
	default:
		if r.awaySince.IsZero() {
			r.awaySince = time.Now()
		}
		if time.Since(r.awaySince) >= limits.away {
			return err
		}
	}
	r.failures++
	ceiling := r.core.retry.ceiling(r.failures)
	return sleep(ctx, ceiling/2+time.Duration(rand.Float64()*float64(ceiling/2)))
}

// event is what of an event the follower reads; data is all of it.
type event struct {
	kind      string
	revision  uint64
	key, uid  string
	version   uint64
	data      []byte
	hasStatus bool
}

type wireMetadata struct {
	Name            string  `json:"name,omitempty"`
	Tenant          string  `json:"tenant,omitempty"`
	UID             string  `json:"uid,omitempty"`
	ResourceVersion *Uint64 `json:"resourceVersion,omitempty"`
}

func (m *wireMetadata) key() string { return m.Tenant + "/" + m.Name }

// seen is what was given of a thing last.
type seen struct {
	metadata wireMetadata
	version  uint64
}

// follower gives events of a watch, each once: what a resumed watch says again is left out, and what it does not say is added.
//
// A stream that begins with revision 0 first gives a snapshot: what is, in the order of names, each with the revision of its own last
// change. Only SYNCED says that all of it has come, so a stream that is lost before begins anew. What vanished between two snapshots has no
// event of the server's: its DELETE is made here, when the later snapshot is complete.
type follower struct {
	core    *core
	request func(revision uint64) (*request, error)
	thing   string
	resumer resumer
	synced  bool
	// seen: what there is, as it was given.
	seen map[string]seen
	// snapshot: what the present one has given so far; nil behind its SYNCED.
	snapshot map[string]bool
	// lastRevision is that of the last change, and lastKeys of what it was given: one revision may change many things.
	lastRevision uint64
	lastKeys     map[string]bool
	// due: events that came, or follow from what came, and were not given yet.
	due []event

	// ending is done when the watch is closed, which end does.
	ending context.Context
	end    context.CancelFunc
	mutex  sync.Mutex
	lines  *lines
	closed bool
}

func newFollower(c *core, op operation, path map[string]string, params any) (*follower, error) {
	given, err := fieldsOf(params)
	if err != nil {
		return nil, err
	}
	f := &follower{core: c, thing: op.thing, resumer: resumer{core: c}, seen: map[string]seen{}}
	f.ending, f.end = context.WithCancel(context.Background())
	if begin, ok := given["afterRevision"]; ok {
		var revision Uint64
		if err := json.Unmarshal(begin, &revision); err != nil {
			return nil, wrongConfig("%s: %v", op.name, err)
		}
		f.resumer.revision.Store(uint64(revision))
	}
	f.request = func(revision uint64) (*request, error) {
		asked := fields{}
		for name, value := range given {
			asked[name] = value
		}
		delete(asked, "afterRevision")
		if revision > 0 {
			asked["afterRevision"], _ = json.Marshal(Uint64(revision))
		}
		return c.request(op, path, asked, nil)
	}
	return f, nil
}

// close ends the watch: there are no further events. Whoever waits for one is woken.
func (f *follower) close() {
	f.mutex.Lock()
	f.closed = true
	f.mutex.Unlock()
	f.end()
	f.drop()
}

func (f *follower) isClosed() bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.closed
}

func (f *follower) drop() {
	f.mutex.Lock()
	old := f.lines
	f.lines = nil
	f.mutex.Unlock()
	if old != nil {
		old.close()
	}
}

// next gives the next event that is new; io.EOF when the watch was closed.
func (f *follower) next(ctx context.Context) (event, error) {
	// Opening, and waiting before that, end as well when the watch is closed.
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.ending, cancel)()
	for !f.isClosed() {
		if len(f.due) > 0 {
			one := f.due[0]
			f.due = f.due[1:]
			if f.fresh(one) {
				return one, nil
			}
			continue
		}
		came, silent, err := f.line(waiting)
		if err == nil && came != nil {
			f.due = append(f.due, f.withDeleted(*came)...)
			continue
		}
		f.drop()
		if ctx.Err() != nil {
			return event{}, ctx.Err()
		}
		if silent || f.isClosed() {
			continue
		}
		if err := f.resumer.lost(waiting, err); err != nil && !f.isClosed() {
			return event{}, err
		}
	}
	f.drop()
	return event{}, io.EOF
}

// line gives the next event of the present stream, or of a new one (nil: it ended), and whether nothing came for long.
func (f *follower) line(ctx context.Context) (*event, bool, error) {
	f.mutex.Lock()
	present := f.lines
	f.mutex.Unlock()
	if present == nil {
		r, err := f.request(f.resumer.revision.Load())
		if err != nil {
			return nil, false, err
		}
		// The stream outlives the call of Next that begins it.
		if present, err = f.begin(ctx, r); err != nil || present == nil {
			return nil, false, err
		}
	}
	data, err := present.next(ctx, limitsNow().silent)
	if errors.Is(err, errSilent) {
		return nil, true, nil
	}
	if err != nil || data == nil {
		return nil, false, err
	}
	came, err := f.parse(data)
	return came, false, err
}

func (f *follower) begin(ctx context.Context, r *request) (*lines, error) {
	begun, err := open(ctx, f.core, r)
	if err != nil {
		return nil, err
	}
	f.snapshot = nil
	if f.resumer.revision.Load() == 0 {
		f.snapshot = map[string]bool{}
	}
	f.resumer.opened()
	f.mutex.Lock()
	f.lines = begun
	closed := f.closed
	f.mutex.Unlock()
	if closed {
		f.drop()
		return nil, nil
	}
	return begun, nil
}

// open begins a stream that outlives the context, which only ends its beginning.
func open(ctx context.Context, c *core, r *request) (*lines, error) {
	streaming, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	begun, err := c.lines(streaming, r, c.timeout)
	if err != nil {
		stop()
		cancel()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	if !stop() {
		begun.close()
		return nil, ctx.Err()
	}
	ended := begun.cancel
	begun.cancel = func() { ended(); cancel() }
	return begun, nil
}

func (f *follower) parse(data []byte) (*event, error) {
	var read struct {
		Type     string `json:"type"`
		Revision Uint64 `json:"revision"`
	}
	var things map[string]json.RawMessage
	var thing struct {
		Metadata wireMetadata    `json:"metadata"`
		Status   json.RawMessage `json:"status"`
	}
	err := json.Unmarshal(data, &read)
	if err == nil {
		err = json.Unmarshal(data, &things)
	}
	if value, ok := things[f.thing]; ok && err == nil {
		err = json.Unmarshal(value, &thing)
	}
	if err != nil {
		return nil, made("internal", APIError{Message: "an event is not as the API says it", Reason: "BROKEN_ANSWER", Err: err})
	}
	one := &event{kind: read.Type, revision: uint64(read.Revision), data: data, hasStatus: thing.Status != nil}
	one.key, one.uid = thing.Metadata.key(), thing.Metadata.UID
	if thing.Metadata.ResourceVersion != nil {
		one.version = uint64(*thing.Metadata.ResourceVersion)
	}
	return one, nil
}

// withDeleted gives an event that came, behind the DELETEs that follow from it where it is of a snapshot.
func (f *follower) withDeleted(one event) []event {
	last := one.kind == "SYNCED"
	f.resumer.arrived(last || f.snapshot == nil)
	if f.snapshot == nil {
		return []event{one}
	}
	var found []event
	if last {
		var gone []string
		for key := range f.seen {
			if !f.snapshot[key] {
				gone = append(gone, key)
			}
		}
		slices.Sort(gone)
		for _, key := range gone {
			found = append(found, f.deleted(key, one.revision))
		}
	} else if before, there := f.seen[one.key]; there && before.metadata.UID != one.uid {
		// Another thing of the same name: the one that was given is not there any more.
		found = append(found, f.deleted(one.key, one.revision))
	}
	return append(found, one)
}

// deleted is the DELETE of what is known, as the server gives it where it does not know the last value, and with uid and version.
func (f *follower) deleted(key string, revision uint64) event {
	known := f.seen[key]
	body := map[string]any{
		"type": "DELETE", f.thing: map[string]any{"metadata": known.metadata}, "revision": Uint64(revision),
	}
	data, _ := json.Marshal(body)
	return event{kind: "DELETE", revision: revision, key: key, uid: known.metadata.UID, version: known.version, data: data}
}

// fresh notes an event; false if it says what is known.
func (f *follower) fresh(one event) bool {
	if one.kind == "SYNCED" {
		f.snapshot = nil
		f.resumer.reached(one.revision)
		known := f.synced
		f.synced = true
		return !known
	}
	if f.snapshot != nil {
		f.snapshot[one.key] = true
	} else if one.revision > 0 {
		// Further changes of this revision may follow, so that a stream which goes on must give it again.
		f.resumer.reached(one.revision - 1)
		if one.revision != f.lastRevision {
			f.lastRevision, f.lastKeys = one.revision, map[string]bool{}
		}
		if f.lastKeys[one.key] {
			return false
		}
		f.lastKeys[one.key] = true
	}
	before, there := f.seen[one.key]
	if one.kind == "DELETE" {
		delete(f.seen, one.key)
		return true
	}
	f.seen[one.key] = seen{metadata: metadataOf(one), version: one.version}
	return !there || before.metadata.UID != one.uid || one.version == 0 || one.version > before.version
}

func metadataOf(one event) wireMetadata {
	tenant, name, _ := strings.Cut(one.key, "/")
	found := wireMetadata{Tenant: tenant, Name: name, UID: one.uid}
	if one.version > 0 {
		version := Uint64(one.version)
		found.ResourceVersion = &version
	}
	return found
}

// Watch gives events, as they come, without an end: what is, as PUT, then SYNCED, then every change once. A lost connection is resumed where
// it was. One goroutine asks for events; Close may be called by any.
type Watch[E any] struct {
	follower *follower
	err      error
}

func watch[E any](c *core, op operation, path map[string]string, params any) *Watch[E] {
	f, err := newFollower(c, op, path, params)
	return &Watch[E]{follower: f, err: err}
}

// Next gives the next event. io.EOF: the watch was closed. A context that is done ends this call alone: the watch goes on with the next one.
func (w *Watch[E]) Next(ctx context.Context) (*E, error) {
	if w.err != nil {
		return nil, w.err
	}
	one, err := w.follower.next(ctx)
	if err != nil {
		return nil, err
	}
	found := new(E)
	if err := json.Unmarshal(one.data, found); err != nil {
		return nil, made("internal", APIError{Message: "an event is not as the API says it", Reason: "BROKEN_ANSWER", Err: err})
	}
	return found, nil
}

// Events gives events on a channel, until the context is done or the watch ends; then the channel is closed, and the watch with it. The
// function says why it ended; nil where it was closed.
func (w *Watch[E]) Events(ctx context.Context) (<-chan *E, func() error) {
	events, ended := make(chan *E), make(chan struct{})
	var why error
	go func() {
		defer close(events)
		defer close(ended)
		defer w.Close()
		for {
			one, err := w.Next(ctx)
			if err != nil {
				if !errors.Is(err, io.EOF) {
					why = err
				}
				return
			}
			select {
			case events <- one:
			case <-ctx.Done():
				why = ctx.Err()
				return
			}
		}
	}()
	return events, func() error { <-ended; return why }
}

// All gives events to a function until it says false; from Go 1.23 on it can be ranged over: for event, err := range watch.All(ctx). An error is the last.
func (w *Watch[E]) All(ctx context.Context) func(yield func(*E, error) bool) {
	return func(yield func(*E, error) bool) {
		defer w.Close()
		for {
			one, err := w.Next(ctx)
			if errors.Is(err, io.EOF) || !yield(one, err) || err != nil {
				return
			}
		}
	}
}

// Revision: up to here all was given, so that a later watch goes on behind it with AfterRevision. A watch that begins with what is there has
// 0 before SYNCED. After a change it is the revision before, because more may have changed in the same one: a later watch gives that change
// again.
func (w *Watch[E]) Revision() Uint64 {
	if w.follower == nil {
		return 0
	}
	return Uint64(w.follower.resumer.revision.Load())
}

// Close ends the watch, also while another goroutine waits for its next event.
func (w *Watch[E]) Close() {
	if w.follower != nil {
		w.follower.close()
	}
}
