package railyard

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// errSilent says that nothing came for the time that was waited; the stream is still open.
var errSilent = errors.New("nothing came for long")

// lines is a stream of JSON objects, one on each line. One goroutine reads it, so that whoever waits for a line can stop waiting.
type lines struct {
	operation string
	read      chan line
	cancel    context.CancelFunc
	done      chan struct{}
	once      sync.Once
	body      io.Closer
}

type line struct {
	data []byte
	err  error
}

// lines begins a stream; one attempt. limit is for its beginning; ctx ends it whenever it is done.
func (c *core) lines(ctx context.Context, r *request, limit time.Duration) (*lines, error) {
	streaming, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(limit, cancel)
	answer, err := c.open(streaming, r, false, false)
	if !timer.Stop() && ctx.Err() == nil {
		err = made("timeout", APIError{Message: fmt.Sprintf("no answer within %v", limit), Operation: r.operation.name})
		if answer != nil {
			answer.Body.Close()
		}
	}
	if err != nil {
		cancel()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	l := &lines{operation: r.operation.name, read: make(chan line), cancel: cancel, done: make(chan struct{}), body: answer.Body}
	go l.run(answer.Body)
	return l, nil
}

// run reads lines until the stream ends or is closed.
func (l *lines) run(body io.Reader) {
	reader := bufio.NewReaderSize(body, 64<<10)
	for {
		data, err := readLine(reader)
		select {
		case l.read <- line{data, err}:
		case <-l.done:
			return
		}
		if err != nil {
			return
		}
	}
}

var errTooLong = errors.New("a line of a stream is too long")

// readLine reads up to the end of a line; what follows the last end of line is no line.
func readLine(reader *bufio.Reader) ([]byte, error) {
	var whole []byte
	for {
		part, err := reader.ReadSlice('\n')
		whole = append(whole, part...)
		switch {
		case err == nil:
			return bytes.TrimSuffix(whole, []byte("\n")), nil
		case len(whole) > maxAnswer:
			return nil, errTooLong
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// close ends the stream; whoever waits for a line is woken.
func (l *lines) close() {
	l.once.Do(func() {
		close(l.done)
		l.cancel()
		l.body.Close()
	})
}

// next gives the next object as it came, nil at a good end. An error that is the stream's last line is an error; errSilent leaves it open.
func (l *lines) next(ctx context.Context, wait time.Duration) ([]byte, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case got := <-l.read:
		return l.judged(ctx, got)
	case <-timer.C:
		return nil, errSilent
	case <-l.done:
		return nil, nil
	case <-ctx.Done():
		l.close()
		return nil, ctx.Err()
	}
}

func (l *lines) judged(ctx context.Context, got line) ([]byte, error) {
	switch {
	case got.err == nil:
	case ctx.Err() != nil:
		l.close()
		return nil, ctx.Err()
	case errors.Is(got.err, io.EOF):
		l.close()
		return nil, nil
	case errors.Is(got.err, errTooLong):
		l.close()
		return nil, made("internal", APIError{Message: got.err.Error(), Reason: "BROKEN_ANSWER", Operation: l.operation})
	default:
		l.close()
		message := fmt.Sprintf("the stream was lost: %v", got.err)
		return nil, made("unavailable", APIError{Message: message, Reason: "CONNECTION_LOST", Operation: l.operation, Err: got.err})
	}
	var value struct {
		Error *wireError `json:"error"`
	}
	if err := json.Unmarshal(got.data, &value); err != nil {
		l.close()
		return nil, made("internal", APIError{Message: "a line of a stream is no JSON", Reason: "BROKEN_ANSWER", Operation: l.operation, Err: err})
	}
	if value.Error != nil {
		l.close()
		return nil, value.Error.of(0, l.operation)
	}
	return got.data, nil
}

// Records are the rows of a stream that ends and is not resumed; it begins with the first row, by a call that is tried again until it is
// answered. One goroutine asks for rows; Close may be called by any.
type Records[T any] struct {
	core    *core
	request *request
	err     error

	mutex  sync.Mutex
	lines  *lines
	closed bool
}

func records[T any](c *core, op operation, path map[string]string, params any) *Records[T] {
	r, err := c.request(op, path, params, nil)
	return &Records[T]{core: c, request: r, err: err}
}

// Next gives the next row; io.EOF at the end. A stream that is silent for five minutes is a DeadlineExceededError.
func (r *Records[T]) Next(ctx context.Context) (*T, error) {
	if r.err != nil {
		return nil, r.err
	}
	data, err := r.row(ctx)
	if err != nil || data == nil {
		r.Close()
		if err == nil {
			err = io.EOF
		}
		return nil, err
	}
	row := new(T)
	if err := json.Unmarshal(data, row); err != nil {
		r.Close()
		return nil, made("internal", APIError{
			Message: "a row is not as the API says it", Reason: "BROKEN_ANSWER", Operation: r.request.operation.name, Err: err,
		})
	}
	return row, nil
}

func (r *Records[T]) row(ctx context.Context) ([]byte, error) {
	r.mutex.Lock()
	begun, closed := r.lines, r.closed
	r.mutex.Unlock()
	if closed {
		return nil, nil
	}
	if begun == nil {
		err := r.core.repeat(ctx, r.request, func(int) error {
			var err error
			// The stream outlives the call that begins it.
			begun, err = open(ctx, r.core, r.request)
			return err
		})
		if err != nil {
			return nil, err
		}
		r.mutex.Lock()
		r.lines, closed = begun, r.closed
		r.mutex.Unlock()
		if closed {
			begun.close()
			return nil, nil
		}
	}
	data, err := begun.next(ctx, limitsNow().silent)
	if errors.Is(err, errSilent) {
		err = made("timeout", APIError{Message: err.Error(), Operation: r.request.operation.name})
	}
	return data, err
}

// Close ends the stream.
func (r *Records[T]) Close() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.closed = true
	if r.lines != nil {
		r.lines.close()
	}
}
