// Package railyard is the API of Railyard's controller for Go programs: typed calls, watches that resume, logs, apply.
//
// Connect reads what railctl reads (environment, then the context of its configuration file):
//
//	client, err := railyard.Connect(railyard.Options{})
//	job, err := client.Submit(ctx, []string{"hostname"}, railyard.SubmitOptions{})
//	_, err = job.Wait(ctx)
//
// Every call takes a context, which ends it. Errors of the API are kinds of *APIError, found by errors.As. A Client may be shared by
// goroutines.
package railyard
