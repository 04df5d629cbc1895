// Package s3cache keeps computed prompts (package promptcache) in a bucket of an object store that speaks S3's
// protocol, so that machines without a common file system share them.
//
//	store, err := s3cache.New(s3cache.Options{Endpoint: "https://s3.example.com", Bucket: "prompts", Credentials: c})
//	if err != nil {
//		return err
//	}
//	loaded, err := promptcache.Load(ctx, store, lineage, model.NewSession, options, tokens, 1)
//
// An object is named PREFIX/KEY, the key in hexadecimal, which hashes the model, the options, the salt and the tokens:
// a bucket tells nobody anything who has not all of these. Its bytes are SHA-256 of the key and of the entry, then the
// entry. What is old the bucket's lifecycle rules delete. Requests are signed with Signature Version 4, name the bucket
// in the path, and follow no redirect.
package s3cache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/specgo/spec/engine/promptcache"
)

// Options say where the bucket is.
type Options struct {
	Endpoint    string // as https://s3.eu-central-1.amazonaws.com
	Region      string // "": us-east-1
	Bucket      string
	Prefix      string // of the objects' names; "": none
	Credentials Credentials
	Timeout     time.Duration     // of a request with its body; 0: DefaultTimeout
	MaxBytes    int64             // most bytes of an entry; 0: DefaultMaxBytes
	Transport   http.RoundTripper // nil: http.DefaultTransport
}

// The defaults of [Options].
const (
	DefaultTimeout  = 30 * time.Second
	DefaultMaxBytes = 1 << 30
)

const mostReason = 4 << 10 // bytes that are read of an answer that is an error

// Store is a [promptcache.Store]. Where a server does not answer, requests fail at once for the time that one may take:
// texts wait for each other's requests, so that a server that hangs would cost each of many texts what it costs one.
type Store struct {
	o      Options
	base   *url.URL
	client http.Client
	now    func() time.Time
	silent atomic.Int64 // until when it is not asked, in Unix nanoseconds
}

// errSilent is the error of requests that are not sent.
var errSilent = errors.New("the server has not answered lately")

var _ promptcache.Store = (*Store)(nil)

var (
	bucketForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	prefixForm = regexp.MustCompile(`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$`)
)

// New checks the options. It sends nothing.
func New(o Options) (*Store, error) {
	base, err := url.Parse(o.Endpoint)
	switch {
	case err != nil || base.Host == "" || base.User != nil || strings.Trim(base.Path, "/") != "" || base.RawQuery != "" ||
		base.Scheme != "https" && base.Scheme != "http":
		return nil, fmt.Errorf("endpoint %q: not as https://HOST", o.Endpoint)
	case !bucketForm.MatchString(o.Bucket):
		return nil, fmt.Errorf("bucket %q: not the name of a bucket", o.Bucket)
	case o.Prefix != "" && (!prefixForm.MatchString(o.Prefix) || strings.Contains("/"+o.Prefix+"/", "/../") ||
		strings.Contains("/"+o.Prefix+"/", "/./")):
		return nil, fmt.Errorf("prefix %q: names have letters, digits, _, . and -, with / between them", o.Prefix)
	case o.Credentials.AccessKey == "" || o.Credentials.SecretKey == "":
		return nil, errors.New("no access key, or no secret key")
	case o.Timeout < 0 || o.MaxBytes < 0:
		return nil, errors.New("a negative timeout or number of bytes")
	}
	if o.Region == "" {
		o.Region = "us-east-1"
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	s := &Store{o: o, base: base, now: time.Now}
	s.client = http.Client{Transport: o.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return s, nil
}

// do sends a request about an object. Other statuses than 200 and 204 are errors, 404 wraps promptcache.ErrMissing.
// read gets the answer.
func (s *Store) do(ctx context.Context, method string, key promptcache.Key, body []byte,
	read func(*http.Response) error) error {
	if s.now().UnixNano() < s.silent.Load() {
		return fmt.Errorf("bucket %s: %w", s.o.Bucket, errSilent)
	}
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	u := *s.base
	u.Path = "/" + s.o.Bucket + "/" + key.String()
	if s.o.Prefix != "" {
		u.Path = "/" + s.o.Bucket + "/" + s.o.Prefix + "/" + key.String()
	}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	s.o.Credentials.sign(r, s.o.Region, hex.EncodeToString(sum[:]), s.now())
	a, err := s.client.Do(r)
	if err != nil {
		return s.failed(whole, err)
	}
	defer a.Body.Close()
	switch a.StatusCode {
	case http.StatusOK, http.StatusNoContent:
		if read == nil {
			return nil
		}
		if err := read(a); err != nil {
			return s.failed(whole, err)
		}
		return nil
	case http.StatusNotFound:
		return fmt.Errorf("bucket %s: %s: %w", s.o.Bucket, key, promptcache.ErrMissing)
	}
	reason, _ := io.ReadAll(io.LimitReader(a.Body, mostReason)) // the status is reason enough
	return fmt.Errorf("bucket %s: %s %s: %s: %s", s.o.Bucket, method, key, a.Status,
		strings.Join(strings.Fields(strings.ToValidUTF8(string(reason), "?")), " "))
}

// failed is the error of a request. A server that was too late, where ctx has not ended by itself, is not asked for a
// while.
func (s *Store) failed(ctx context.Context, err error) error {
	if e := (net.Error)(nil); errors.As(err, &e) && e.Timeout() && ctx.Err() == nil {
		s.silent.Store(s.now().Add(s.o.Timeout).UnixNano())
	}
	return fmt.Errorf("bucket %s: %w", s.o.Bucket, err)
}

// Has is that of [promptcache.Store].
func (s *Store) Has(ctx context.Context, key promptcache.Key) bool {
	return s.do(ctx, http.MethodHead, key, nil, nil) == nil
}

// Get is that of [promptcache.Store].
func (s *Store) Get(ctx context.Context, key promptcache.Key) (data []byte, err error) {
	err = s.do(ctx, http.MethodGet, key, nil, func(a *http.Response) error {
		data, err = io.ReadAll(io.LimitReader(a.Body, sha256.Size+s.o.MaxBytes+1))
		return err
	})
	if err != nil {
		return nil, err
	}
	if n := len(data) - sha256.Size; n < 0 || int64(n) > s.o.MaxBytes ||
		[sha256.Size]byte(data) != sumOf(key, data[sha256.Size:]) {
		err := fmt.Errorf("bucket %s: %s: damaged, or of more than %d bytes: %w", s.o.Bucket, key, s.o.MaxBytes,
			promptcache.ErrMissing)
		return nil, errors.Join(err, s.do(ctx, http.MethodDelete, key, nil, nil))
	}
	return data[sha256.Size:], nil
}

// Put is that of [promptcache.Store].
func (s *Store) Put(ctx context.Context, key promptcache.Key, data []byte) error {
	if int64(len(data)) > s.o.MaxBytes {
		return fmt.Errorf("bucket %s: %s: %d bytes, at most %d", s.o.Bucket, key, len(data), s.o.MaxBytes)
	}
	sum := sumOf(key, data)
	return s.do(ctx, http.MethodPut, key, append(sum[:], data...), nil)
}

// Used does nothing: what is old goes by the bucket's rules.
func (s *Store) Used(context.Context, []promptcache.Key) {}

func sumOf(key promptcache.Key, data []byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	h.Write(key[:])
	h.Write(data)
	h.Sum(sum[:0])
	return sum
}
