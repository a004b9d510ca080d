package railyard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// defaultPort is the controller's where an address names none.
	defaultPort = "7443"
	// controllerName is what a controller's certificate has for whoever reaches it by a unix socket.
	controllerName = "controller.rail.internal"
	// connect is how long a connection may take to be made, to one address.
	connect = 5 * time.Second
	// idleFor: a connection that waited so long is not used again: the controller may end it.
	idleFor = 8 * time.Second
)

// notSent says that a connection could not be made, so that nothing was sent. reason: because of a certificate, so that trying again does
// not help.
type notSent struct {
	where, reason string
	err           error
}

func (e *notSent) Error() string { return fmt.Sprintf("%s: %v", e.where, e.err) }
func (e *notSent) Unwrap() error { return e.err }

// endpoint is one address of a controller: a host with its port, or the path of a unix socket. Both speak TLS.
type endpoint struct {
	host, port, path string
	// kept keeps connections for the next call; fresh makes one for each.
	kept, fresh *http.Transport
}

func parseEndpoint(given string) (*endpoint, error) {
	if path, ok := strings.CutPrefix(given, "unix:"); ok {
		path = strings.TrimPrefix(path, "//")
		if !strings.HasPrefix(path, "/") || strings.ContainsRune(path, 0) {
			return nil, wrongConfig("`%s` is not an endpoint: expected https://host:port or unix:/path", given)
		}
		return &endpoint{path: path}, nil
	}
	if plain, ok := strings.CutPrefix(given, "http://"); ok {
		// Before an @ stands a name, and perhaps a password.
		return nil, wrongConfig("`http://%s`: there is no unencrypted API; write https://", plain[strings.LastIndex(plain, "@")+1:])
	}
	rest, ok := strings.CutPrefix(given, "https://")
	rest = strings.TrimSuffix(rest, "/")
	if !ok || rest == "" || strings.ContainsAny(rest, "/?#@ ") {
		return nil, wrongConfig("an endpoint of a controller is https://host:port or unix:/path")
	}
	host, port, err := net.SplitHostPort(rest)
	if err != nil {
		host, port = strings.Trim(rest, "[]"), defaultPort
	}
	if number, err := net.LookupPort("tcp", port); err != nil || number == 0 || host == "" {
		return nil, wrongConfig("`%s` is not an endpoint: expected https://host:port", given)
	}
	return &endpoint{host: host, port: port}, nil
}

func (e *endpoint) authority() string {
	if e.path != "" {
		return controllerName
	}
	return net.JoinHostPort(e.host, e.port)
}

func (e *endpoint) String() string {
	if e.path != "" {
		return "unix:" + e.path
	}
	return "https://" + e.authority()
}

// use has the endpoint dial with these credentials.
func (e *endpoint) use(shown *credentials) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return e.dial(ctx, shown) }
	base := &http.Transport{DialTLSContext: dial, IdleConnTimeout: idleFor, MaxIdleConnsPerHost: 4, MaxResponseHeaderBytes: 64 << 10}
	e.kept = base
	e.fresh = base.Clone()
	e.fresh.DisableKeepAlives = true
}

func (e *endpoint) dial(ctx context.Context, shown *credentials) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connect)
	defer cancel()
	config, err := shown.config()
	if err != nil {
		return nil, &notSent{where: e.String(), err: err}
	}
	dialer := net.Dialer{KeepAlive: 20 * time.Second}
	network, address, name := "tcp", e.authority(), e.host
	if e.path != "" {
		network, address, name = "unix", e.path, controllerName
	}
	connection, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, &notSent{where: e.String(), err: err}
	}
	if config == nil {
		return connection, nil
	}
	config.ServerName = name
	secure := tls.Client(connection, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		connection.Close()
		return nil, &notSent{where: e.String(), reason: reasonOf(err), err: err}
	}
	return secure, nil
}

// reasonOf says whether a handshake failed because of a certificate; that will fail again.
func reasonOf(err error) string {
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	switch {
	case errors.As(err, &verification), errors.As(err, &authority), errors.As(err, &name):
		return "CERTIFICATE_NOT_TRUSTED"
	case isAlert(err):
		return "CERTIFICATE_REFUSED"
	}
	return ""
}

// isAlert says whether the peer has ended TLS with an alert. In TLS 1.3 this comes behind our part of the handshake, where it does not take
// our certificate; then it has read no request.
func isAlert(err error) bool {
	var operation *net.OpError
	return errors.As(err, &operation) && operation.Op == "remote error"
}

// credentials are what is trusted and shown; files that were renewed are read again at the next connection.
type credentials struct {
	ca, cert, key string
	// plain: tests speak to servers without TLS.
	plain bool

	mutex    sync.Mutex
	versions string
	read     *tls.Config
}

// config is for one connection. While files that are renewed one after the other do not fit together, what was good goes on.
func (c *credentials) config() (*tls.Config, error) {
	if c.plain {
		return nil, nil
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	versions, err := versionsOf(c.ca, c.cert, c.key)
	if err == nil && (c.read == nil || versions != c.versions) {
		var read *tls.Config
		if read, err = c.load(); err == nil {
			c.read, c.versions = read, versions
		}
	}
	if c.read == nil {
		return nil, wrongConfig("credentials: %v", err)
	}
	return c.read.Clone(), nil
}

func (c *credentials) load() (*tls.Config, error) {
	pem, err := os.ReadFile(c.ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate", c.ca)
	}
	read := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, NextProtos: []string{"http/1.1"}}
	if c.cert != "" {
		pair, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err != nil {
			return nil, err
		}
		read.Certificates = []tls.Certificate{pair}
	}
	return read, nil
}

func versionsOf(paths ...string) (string, error) {
	var found strings.Builder
	for _, path := range paths {
		if path == "" {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&found, "%d ", info.ModTime().UnixNano())
	}
	return found.String(), nil
}
