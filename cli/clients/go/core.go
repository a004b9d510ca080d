package railyard

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// maxAnswer bounds an answer, and one line of a stream, in bytes.
	maxAnswer = 64 << 20
	// maxCalls of one client are under way at a time; others wait. Streams are not counted.
	maxCalls = 32
	// pageSize rows are asked for at a time; a list has at most maxPages pages: a server that never ends one is wrong.
	pageSize = 200
	maxPages = 100_000
)

// operation describes one call of the API.
type operation struct {
	name, method string
	// path has {field} for what it carries.
	path string
	// tenant is the field that is the tenant's name where the caller gives none.
	tenant string
	// thing is, of a watch, the field of an event that has what it is about.
	thing string
	// repeatable: done twice it is as if done once, so that it is repeated where the answer was lost.
	repeatable bool
	// requestID: it takes a request id, which is made here where the caller gives none.
	requestID bool
	// whole: the fields are the body, not parameters.
	whole bool
	// owned: the body is a document that says of which tenant it is.
	owned bool
}

// RetryPolicy says how often, how soon and for how long a call is repeated.
//
// Repeated are calls that nobody answered (UNAVAILABLE), and those that the controller asks to be repeated later. A call without a request
// id that changes something is repeated only where it surely was not sent.
type RetryPolicy struct {
	// Attempts is the number of calls in all, the first included.
	Attempts int
	// First is the longest first wait; it doubles with every attempt.
	First time.Duration
	// Longest is the longest wait of all.
	Longest time.Duration
	// Within: no call starts later than this after the first.
	Within time.Duration
}

// DefaultRetry is the policy of a client that is given none.
var DefaultRetry = RetryPolicy{Attempts: 5, First: 100 * time.Millisecond, Longest: 2 * time.Second, Within: 15 * time.Second}

// ceiling is the backoff before jitter, after so many attempts.
func (p RetryPolicy) ceiling(made int) time.Duration {
	wait := p.First
	for i := 1; i < made && wait < p.Longest; i++ {
		wait *= 2
	}
	return min(wait, p.Longest)
}

// wait is how long to wait before the next attempt; false if the error must be given to the caller. random is in [0, 1).
func (p RetryPolicy) wait(made int, elapsed time.Duration, err error, random float64) (time.Duration, bool) {
	var e *APIError
	if !errors.As(err, &e) || made >= p.Attempts {
		return 0, false
	}
	if !is(err, "unavailable") && !(e.retries && e.Status == "RESOURCE_EXHAUSTED") {
		return 0, false
	}
	ceiling := p.ceiling(made)
	wait := ceiling/2 + time.Duration(random*float64(ceiling/2))
	if e.retries {
		wait = e.RetryAfter + time.Duration(random*float64(ceiling))
	}
	return wait, elapsed+wait <= p.Within
}

// core is the way to the controllers of one cluster.
type core struct {
	endpoints []*endpoint
	token     string
	tenant    string
	timeout   time.Duration
	retry     RetryPolicy
	first     atomic.Int32
	calls     chan struct{}
}

// request is a call as it is sent.
type request struct {
	operation  operation
	target     string
	body       []byte
	repeatable bool
}

// fields of a call by their names.
type fields = map[string]json.RawMessage

// fieldsOf reads what a call was given; a nil pointer is nothing.
func fieldsOf(params any) (fields, error) {
	if given, ok := params.(fields); ok {
		return given, nil
	}
	data, err := json.Marshal(params)
	if err != nil {
		return nil, wrongConfig("the request is no JSON: %v", err)
	}
	given := fields{}
	if err := json.Unmarshal(data, &given); err != nil {
		return nil, wrongConfig("the request is no object: %v", err)
	}
	if given == nil {
		given = fields{}
	}
	return given, nil
}

func text(value string) json.RawMessage {
	data, _ := json.Marshal(value)
	return data
}

// written is a parameter as it stands in a query.
func written(value json.RawMessage) string {
	var list []json.RawMessage
	if json.Unmarshal(value, &list) == nil && list != nil {
		parts := make([]string, len(list))
		for i, one := range list {
			parts[i] = written(one)
		}
		return strings.Join(parts, ",")
	}
	var word string
	if json.Unmarshal(value, &word) == nil {
		return word
	}
	return string(value)
}

// request fills in what the client knows: the tenant, and a request id.
func (c *core) request(op operation, path map[string]string, params any, body any) (*request, error) {
	read, err := fieldsOf(params)
	if err != nil {
		return nil, err
	}
	given := fields{}
	for name, value := range read {
		given[name] = value
	}
	if _, ok := given[op.tenant]; op.tenant != "" && !ok && c.tenant != "" {
		given[op.tenant] = text(c.tenant)
	}
	if _, ok := given["requestId"]; op.requestID && !ok {
		given["requestId"] = text(newID())
	}
	target := op.path
	for name, value := range path {
		if value == "" {
			return nil, wrongConfig("%s: %s is empty", op.name, name)
		}
		target = strings.ReplaceAll(target, "{"+name+"}", url.PathEscape(value))
	}
	made := &request{operation: op, repeatable: op.repeatable || op.requestID}
	if op.whole {
		if body, err = json.Marshal(given); err != nil {
			return nil, wrongConfig("%s: the request is no JSON: %v", op.name, err)
		}
		made.body = body.([]byte)
	} else {
		query := url.Values{}
		for name, value := range given {
			if text := written(value); text != "" {
				query.Set(name, text)
			}
		}
		if len(query) > 0 {
			target += "?" + query.Encode()
		}
		if body != nil {
			if made.body, err = c.document(op, body); err != nil {
				return nil, err
			}
		}
	}
	made.target = target
	return made, nil
}

// document is the body of a call, of the client's tenant where it is a tenant's and names none.
func (c *core) document(op operation, body any) ([]byte, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, wrongConfig("%s: the document is no JSON: %v", op.name, err)
	}
	if op.owned {
		return c.owned(data)
	}
	return data, nil
}

func (c *core) owned(data []byte) ([]byte, error) {
	var document, metadata fields
	if c.tenant == "" || json.Unmarshal(data, &document) != nil || document == nil {
		return data, nil
	}
	if value, ok := document["metadata"]; ok && json.Unmarshal(value, &metadata) != nil {
		return data, nil
	}
	if tenant, ok := metadata["tenant"]; ok && string(tenant) != `""` && string(tenant) != "null" {
		return data, nil
	}
	if metadata == nil {
		metadata = fields{}
	}
	metadata["tenant"] = text(c.tenant)
	document["metadata"], _ = json.Marshal(metadata)
	return json.Marshal(document)
}

// newID is a random UUID.
func newID() string {
	var id [16]byte
	if _, err := crand.Read(id[:]); err != nil {
		panic("the system has no random numbers: " + err.Error())
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// sleep waits, or ends with the context.
func sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// repeat tries until an answer comes that trying again would not change; bounded by the policy.
func (c *core) repeat(ctx context.Context, r *request, once func(attempt int) error) error {
	began := time.Now()
	for made := 1; ; made++ {
		err := once(made)
		if err == nil || ctx.Err() != nil {
			return err
		}
		// Nobody took a connection, or it was too much at once: then nothing was done.
		var e *APIError
		surelyNot := errors.As(err, &e) && (e.Reason == "UNREACHABLE" || e.Status == "RESOURCE_EXHAUSTED")
		wait, again := c.retry.wait(made, time.Since(began), err, rand.Float64())
		if !again || !(r.repeatable || surelyNot) {
			return err
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// do makes a call and reads its answer into into.
func (c *core) do(ctx context.Context, op operation, path map[string]string, params any, body any, into any) error {
	r, err := c.request(op, path, params, body)
	if err != nil {
		return err
	}
	return c.repeat(ctx, r, func(attempt int) error {
		select {
		case c.calls <- struct{}{}:
			defer func() { <-c.calls }()
		case <-ctx.Done():
			return ctx.Err()
		}
		// A connection that waited may be closed already: what may not be repeated gets a new one, and so does what failed.
		return c.exchange(ctx, r, r.repeatable && attempt == 1, into)
	})
}

// exchange is one attempt of a call.
func (c *core) exchange(ctx context.Context, r *request, reuse bool, into any) error {
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	answer, err := c.open(limited, r, reuse, true)
	if err != nil {
		return c.late(ctx, limited, r, err)
	}
	defer answer.Body.Close()
	data, err := whole(answer.Body, r)
	if err != nil {
		return c.late(ctx, limited, r, err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return made("internal", APIError{Message: "the answer is no JSON of the API", Reason: "BROKEN_ANSWER", Operation: r.operation.name, Err: err})
	}
	return nil
}

// late tells the limit of an attempt from the caller's context.
func (c *core) late(ctx, limited context.Context, r *request, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if limited.Err() != nil {
		return made("timeout", APIError{Message: fmt.Sprintf("no answer within %v", c.timeout), Operation: r.operation.name})
	}
	return err
}

// open sends a request to the first controller that takes it. An answer that is an error is returned as one.
func (c *core) open(ctx context.Context, r *request, reuse, unary bool) (*http.Response, error) {
	var failures []string
	var failed []*notSent
	var lost error
	count := len(c.endpoints)
	for step := 0; step < count; step++ {
		at := (int(c.first.Load()) + step) % count
		answer, err := c.send(ctx, c.endpoints[at], r, reuse, unary)
		var not *notSent
		var wrong *ConfigError
		if err != nil && isAlert(err) && !errors.As(err, &not) {
			err = &notSent{where: c.endpoints[at].String(), reason: "CERTIFICATE_REFUSED", err: err}
		}
		switch {
		case err == nil:
			c.first.Store(int32(at))
			return c.judged(answer, r)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.As(err, &wrong):
			return nil, wrong
		case errors.As(err, &not):
			failures, failed = append(failures, not.Error()), append(failed, not)
		default:
			// Whether it was sent nobody knows; another controller may be asked only where that does no harm.
			failures, lost = append(failures, fmt.Sprintf("%s: %v", c.endpoints[at], err)), err
		}
		if lost != nil && !r.repeatable {
			break
		}
	}
	return nil, c.failed(r, failures, failed, lost)
}

// failed is the error of a request that no controller answered. What may go well the next time counts for more than a certificate.
func (c *core) failed(r *request, failures []string, failed []*notSent, lost error) error {
	e := APIError{Message: strings.Join(failures, "; "), Reason: "UNREACHABLE", Operation: r.operation.name}
	if lost != nil {
		e.Reason, e.Err = "CONNECTION_LOST", lost
		return made("unavailable", e)
	}
	for _, one := range failed {
		if one.reason == "" {
			e.Reason, e.Err = "UNREACHABLE", one.err
			return made("unavailable", e)
		}
		e.Reason, e.Err = one.reason, one.err
	}
	found := classOf("unauthenticated")
	e.Class, e.Code, e.Status = found.word, found.code, found.status
	return &TlsError{&e}
}

func (c *core) send(ctx context.Context, to *endpoint, r *request, reuse, unary bool) (*http.Response, error) {
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	sent, err := http.NewRequestWithContext(ctx, r.operation.method, "https://"+to.authority()+r.target, body)
	if err != nil {
		return nil, &notSent{where: to.String(), err: err}
	}
	if r.body != nil {
		sent.Header.Set("Content-Type", "application/json")
	}
	if unary {
		sent.Header.Set("Accept", "application/json")
		milliseconds := min(max(c.timeout.Milliseconds(), 1), 99_999_999)
		sent.Header.Set("Grpc-Timeout", fmt.Sprintf("%dm", milliseconds))
	} else {
		sent.Header.Set("Accept", "application/x-ndjson")
	}
	if c.token != "" {
		sent.Header.Set("Authorization", "Bearer "+c.token)
	}
	way := to.fresh
	if reuse {
		way = to.kept
	}
	return way.RoundTrip(sent)
}

// judged reads an answer that is an error.
func (c *core) judged(answer *http.Response, r *request) (*http.Response, error) {
	if answer.StatusCode < 300 {
		return answer, nil
	}
	defer answer.Body.Close()
	data, err := whole(answer.Body, r)
	if err != nil {
		return nil, err
	}
	var body struct {
		Error *wireError `json:"error"`
	}
	if json.Unmarshal(data, &body) != nil || body.Error == nil {
		message := fmt.Sprintf("the answer has HTTP status %d and no error of the API", answer.StatusCode)
		found := classOfCode(answer.StatusCode)
		return nil, made(found.word, APIError{Message: message, Code: answer.StatusCode, Operation: r.operation.name})
	}
	return nil, body.Error.of(answer.StatusCode, r.operation.name)
}

// whole reads all of a body.
func whole(body io.Reader, r *request) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	if err != nil {
		return nil, made("unavailable", APIError{
			Message: fmt.Sprintf("the answer was lost: %v", err), Reason: "CONNECTION_LOST", Operation: r.operation.name, Err: err,
		})
	}
	if len(data) > maxAnswer {
		message := fmt.Sprintf("an answer has more than %d bytes", maxAnswer)
		return nil, made("too-large", APIError{Message: message, Reason: "ANSWER_TOO_LARGE", Operation: r.operation.name})
	}
	return data, nil
}

// call makes a call whose answer is a T.
func call[T any](ctx context.Context, c *core, op operation, path map[string]string, params any, body any) (*T, error) {
	answer := new(T)
	if err := c.do(ctx, op, path, params, body, answer); err != nil {
		return nil, err
	}
	return answer, nil
}

// pages gives all rows of a list.
func pages[T any](ctx context.Context, c *core, op operation, path map[string]string, params any, rows string) ([]T, error) {
	given, err := fieldsOf(params)
	if err != nil {
		return nil, err
	}
	if _, ok := given["pageSize"]; !ok {
		given["pageSize"] = json.RawMessage(fmt.Sprint(pageSize))
	}
	delete(given, "pageToken")
	found := []T{}
	for page := 0; page < maxPages; page++ {
		var answer fields
		if err := c.do(ctx, op, path, given, nil, &answer); err != nil {
			return nil, err
		}
		var some []T
		if value, ok := answer[rows]; ok {
			if err := json.Unmarshal(value, &some); err != nil {
				return nil, made("internal", APIError{Message: "a list is not as the API says it", Reason: "BROKEN_ANSWER", Operation: op.name, Err: err})
			}
		}
		found = append(found, some...)
		token, ok := answer["nextPageToken"]
		if !ok || string(token) == `""` {
			return found, nil
		}
		given["pageToken"] = token
	}
	return nil, made("internal", APIError{Message: "a list does not end", Reason: "BROKEN_ANSWER", Operation: op.name})
}
