package railyard

import (
	"context"
	"time"
)

// Options say where the cluster is and as whom to speak; what is empty is found as railctl finds it: environment (RAIL_CONTROLLER, ...),
// then the context of the configuration file.
type Options struct {
	// Context of the configuration file.
	Context string
	// Controller has addresses of controllers, tried in turn: https://host:port or unix:/path.
	Controller []string
	// CA, Cert and Key are paths of PEM files.
	CA, Cert, Key string
	// Token is an API token, or the path of a file that has one. No error shows it.
	Token string
	// Tenant to act for; nil: as it is found. Empty: the caller's own, or all for an administrator's lists.
	Tenant *string
	// Config is the path of the configuration file.
	Config string
	// Timeout is the limit of one attempt of a call; 30 s if 0. The context of a call bounds all of it.
	Timeout time.Duration
	// Retry says how calls are repeated; DefaultRetry if nil.
	Retry *RetryPolicy
}

// Client is a cluster's API. Goroutines may share one.
type Client struct {
	Services
	core *core
}

// Connect makes a client of the cluster that railctl would reach. Nothing is sent yet. A *ConfigError says what is missing or cannot be used.
func Connect(options Options) (*Client, error) {
	found, err := load(options, environment())
	if err != nil {
		return nil, err
	}
	shown := &credentials{ca: found.ca, cert: found.cert, key: found.key}
	if _, err := shown.config(); err != nil {
		return nil, err
	}
	return newClient(found, options, shown)
}

func newClient(found *settings, options Options, shown *credentials) (*Client, error) {
	c := &core{token: found.token, tenant: found.tenant, timeout: options.Timeout, retry: DefaultRetry, calls: make(chan struct{}, maxCalls)}
	if c.timeout <= 0 {
		c.timeout = 30 * time.Second
	}
	if options.Retry != nil {
		c.retry = *options.Retry
	}
	for _, one := range found.controller {
		to, err := parseEndpoint(one)
		if err != nil {
			return nil, err
		}
		to.use(shown)
		c.endpoints = append(c.endpoints, to)
	}
	return &Client{Services: newServices(c), core: c}, nil
}

// Close ends the connections that wait; calls under way go on.
func (c *Client) Close() {
	for _, to := range c.core.endpoints {
		to.kept.CloseIdleConnections()
	}
}

// Job gives a job that is there, as an object; a *NotFoundError if it is not. An empty tenant is the client's.
func (c *Client) Job(ctx context.Context, name, tenant string) (*JobHandle, error) {
	document, err := c.Jobs.Get(ctx, name, &GetJobParams{Tenant: tenant})
	if err != nil {
		return nil, err
	}
	return &JobHandle{core: c.core, document: document}, nil
}

// Submit submits a job: a program with its arguments; Shell makes one of a command for a shell. Without a request id each call makes a job,
// exactly one however often it had to be sent. An *InvalidRequestError has the fields that are wrong.
func (c *Client) Submit(ctx context.Context, argv []string, options SubmitOptions) (*JobHandle, error) {
	job, err := describe(argv, options)
	if err != nil {
		return nil, err
	}
	params := &CreateJobParams{OnBehalfOf: options.Tenant, RequestId: options.RequestID, Hold: options.Hold}
	document, err := c.Jobs.Create(ctx, job, params)
	if err != nil {
		return nil, err
	}
	return &JobHandle{core: c.core, document: document}, nil
}

// Shell is a command for a shell as Submit takes it.
func Shell(command string) []string { return []string{"/bin/sh", "-c", command} }
