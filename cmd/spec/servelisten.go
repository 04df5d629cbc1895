package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"syscall"

	"github.com/specgo/spec/internal/systemd"
	"github.com/specgo/spec/serve"
)

// listening is where a server answers.
type listening struct{ answers, metrics []net.Listener }

// metricsSocket is the name of sockets for metrics alone.
const metricsSocket = "metrics"

// listeners are sockets that the supervisor has opened, or the addresses of the flags.
func (s *network) listeners(p *program) (on listening, err error) {
	passed, err := systemd.Sockets(p.env)
	if err != nil {
		return on, err
	}
	defer func() {
		if err != nil {
			for _, l := range slices.Concat(on.answers, on.metrics) {
				_ = l.Close() // it is given up either way
			}
		}
	}()
	for _, l := range passed {
		if l.Name == metricsSocket {
			on.metrics = append(on.metrics, l)
			continue
		}
		on.answers = append(on.answers, l)
		if reachable(l.Addr()) && !s.keyed() {
			return on, fmt.Errorf("the socket %s can be reached by others: give --api-key or --api-key-file", l.Addr())
		}
	}
	if on.answers == nil {
		l, err := s.listen()
		if err != nil {
			return on, err
		}
		on.answers = append(on.answers, l)
	}
	if on.metrics == nil && s.metrics != "" {
		l, err := listen(s.metrics, "--metrics-listen "+s.metrics, "--metrics-listen")
		if err != nil {
			return on, err
		}
		on.metrics = append(on.metrics, l)
	}
	return on, nil
}

// listen opens the address of --host and --port.
func (s *network) listen() (net.Listener, error) {
	port := strconv.Itoa(s.port)
	return listen(net.JoinHostPort(s.host, port), "--host "+s.host+" --port "+port, "--port")
}

// listen opens an address. An error names the flags that say it, and of an address in use the one to change.
func listen(address, flags, change string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s: another program listens there; %s chooses another port", flags, change)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", flags, err)
	}
	return l, nil
}

// resolve finds the files of models. Downloads may take long, so an address in use is told before they begin, and the
// end of a terminal does not end them.
func (s *serving) resolve(ctx context.Context, p *program) error {
	defer p.survive()()
	if !systemd.Given(p.env) {
		on, err := s.listeners(p)
		if err != nil {
			return err
		}
		for _, l := range slices.Concat(on.answers, on.metrics) {
			if err := l.Close(); err != nil {
				return err
			}
		}
	}
	return s.servedModels.resolve(ctx, p)
}

// keyed reports whether requests need a key.
func (s *network) keyed() bool { return len(s.keys) > 0 || s.keyFile != "" }

// reachable reports whether other machines can connect to an address.
func reachable(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && !tcp.IP.IsLoopback()
}

// tls is what connections are encrypted with; nil: nothing. The certificate is the one that was read last.
func (s *network) tls() (scheme string, config *tls.Config, err error) {
	if s.cert == "" {
		return "http", nil, nil
	}
	if err := s.readCertificate(); err != nil {
		return "", nil, err
	}
	return "https", &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificate.Load(), nil },
		MinVersion:     tls.VersionTLS12,
	}, nil
}

func (s *network) readCertificate() error {
	pair, err := tls.LoadX509KeyPair(s.cert, s.key)
	if err == nil {
		s.certificate.Store(&pair)
	}
	return err
}

// reload reads the command line, the environment and the files that they name again, and takes over what may change
// while the server runs: keys, the certificate, which models there are, what is logged. If anything is wrong, nothing
// changes.
func (s *serving) reload(
	ctx context.Context, p *program, server *serve.Server, offered func(*serving) ([]serve.Entry, error),
) error {
	next := s
	if p.again != nil {
		j, err := p.again()
		if err != nil {
			return err
		}
		next = j.(*serving)
		if err := next.servedModels.resolve(ctx, p); err != nil {
			return err
		}
		next.folder, next.together, next.contexts = s.folder, s.together, new(contexts) // flags of files may have changed
	}
	switch {
	case next.dir != s.dir:
		return fmt.Errorf("--models-dir %s: the folder of models stays the same while the server runs", next.dir)
	case (next.cert == "") != (s.cert == ""):
		return fmt.Errorf("--ssl-cert-file: whether there is TLS stays the same while the server runs")
	}
	keys, err := next.allKeys()
	if err != nil {
		return err
	}
	entries, err := offered(next)
	if err != nil {
		return err
	}
	if next.cert != "" {
		if err := next.readCertificate(); err != nil {
			return err
		}
	}
	if err := server.Reload(keys, entries); err != nil {
		return err
	}
	s.certificate.Store(next.certificate.Load())
	s.level.Set(next.level.Level())
	return nil
}
