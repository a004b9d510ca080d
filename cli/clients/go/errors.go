package railyard

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Violation is one field of a request that is wrong: its path, as spec.gang.nodes, and what is wrong with it.
type Violation struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// APIError is what the controller refused, or that it could not be asked. Each class of error has a type of its own (NotFoundError, ...),
// which wraps it: errors.As finds either.
type APIError struct {
	// Code is the HTTP status.
	Code int
	// Status is the gRPC code: NOT_FOUND.
	Status string
	// Class is the API's word for the class: not-found.
	Class string
	// Reason is for programs: JOB_NOT_FOUND.
	Reason string
	// Message is for people.
	Message string
	// Violations names fields of the request that are wrong.
	Violations []Violation
	// RetryAfter is after how long trying again may help; 0 where the controller does not say that it does.
	RetryAfter time.Duration
	// Operation is the call, as createJob.
	Operation string
	// Err is what went wrong with the connection, if it was that.
	Err error

	retries bool
}

func (e *APIError) Error() string {
	text := e.Message
	if e.Operation != "" {
		text = e.Operation + ": " + text
	}
	if e.Reason != "" {
		text += " [" + e.Reason + "]"
	}
	return text
}

// Unwrap gives what went wrong with the connection.
func (e *APIError) Unwrap() error { return e.Err }

// ConfigError says that nothing was sent: no controller is known, or an argument, a file or a credential cannot be used.
type ConfigError struct{ Message string }

func (e *ConfigError) Error() string { return e.Message }

func wrongConfig(format string, arguments ...any) error {
	return &ConfigError{fmt.Sprintf(format, arguments...)}
}

// JobFailedError says that a job that was waited for has failed or was cancelled.
type JobFailedError struct {
	Message string
	// Job is the whole of it.
	Job *Job
	// Phase is how it ended: FAILED or CANCELLED.
	Phase JobStatusPhase
}

func (e *JobFailedError) Error() string { return e.Message }

// ApplyRefusedError says that some documents would be refused, so that none was applied.
type ApplyRefusedError struct{ Changes *Changes }

func (e *ApplyRefusedError) Error() string {
	lines := []string{"nothing was applied:"}
	for _, one := range e.Changes.Refused() {
		lines = append(lines, fmt.Sprintf("%s: %v", one, one.Refusal))
	}
	return strings.Join(lines, "\n")
}

// class is one row of the classes of errors.
type class struct {
	name, word string
	code       int
	status     string
	make       func(*APIError) error
}

// classes that are other words for one of the table.
var otherWords = map[string]string{"media-type": "invalid", "method": "unimplemented"}

// byCode: which class an HTTP status stands for that several have, or none.
var byCode = map[int]string{
	405: "unimplemented", 409: "conflict", 415: "invalid", 429: "overloaded", 500: "internal", 502: "unavailable",
}

func classOf(word string) *class {
	if other, ok := otherWords[word]; ok {
		word = other
	}
	for i := range classes {
		if classes[i].word == word {
			return &classes[i]
		}
	}
	return nil
}

func classOfCode(code int) *class {
	if word, ok := byCode[code]; ok {
		return classOf(word)
	}
	for i := range classes {
		if classes[i].code == code {
			return &classes[i]
		}
	}
	if code >= 400 && code < 500 {
		return classOf("invalid")
	}
	return classOf("internal")
}

// made gives an error of a class, by the class's word.
func made(word string, e APIError) error {
	found := classOf(word)
	e.Class = word
	if e.Code == 0 {
		e.Code = found.code
	}
	if e.Status == "" {
		e.Status = found.status
	}
	return found.make(&e)
}

// wireError is what stands below "error" in an answer.
type wireError struct {
	Code         int         `json:"code"`
	Status       string      `json:"status"`
	Class        string      `json:"class"`
	Reason       string      `json:"reason"`
	Message      string      `json:"message"`
	Violations   []Violation `json:"violations"`
	RetryAfterMs *Int64      `json:"retryAfterMs"`
}

// of gives the error; a class that is newer than this package goes by the HTTP status.
func (w *wireError) of(code int, operation string) error {
	if w.Code != 0 {
		code = w.Code
	}
	found := classOf(w.Class)
	if found == nil {
		found = classOfCode(code)
	}
	e := &APIError{
		Code: code, Status: w.Status, Class: w.Class, Reason: w.Reason, Message: w.Message, Violations: w.Violations, Operation: operation,
	}
	if e.Code == 0 {
		e.Code = found.code
	}
	if e.Status == "" {
		e.Status = found.status
	}
	if e.Class == "" {
		e.Class = found.word
	}
	if w.RetryAfterMs != nil {
		e.retries, e.RetryAfter = true, time.Duration(*w.RetryAfterMs)*time.Millisecond
	}
	return found.make(e)
}

// is says whether an error is of one of these classes, by their words.
func is(err error, words ...string) bool {
	var e *APIError
	if !errors.As(err, &e) {
		return false
	}
	for _, word := range words {
		if found := classOf(e.Class); found != nil && found.word == word {
			return true
		}
	}
	return false
}
