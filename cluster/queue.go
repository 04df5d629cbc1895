package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/specgo/spec"
	"github.com/specgo/spec/internal/strictjson"
)

// QueueOptions configure a queue where it is made; one that is there stays as it is.
type QueueOptions struct {
	Name     string        // of the streams and subjects; "": spec
	Replicas int           // of each stream, in a cluster of servers; 0 is 1
	Keep     time.Duration // how long answers are kept; 0 is a week
	Lease    time.Duration // how long a worker that is not heard of keeps a request; 0 is 30 s
	// InFlight is the most requests of one tenant and priority that workers may have at once, all together; 0 is 1000.
	InFlight int
}

// Queue is the streams of a queue:
//
//	NAME.work.IDENTITY.PRIORITY.TENANT.KEY   a request that waits or is being answered; removed when it is acknowledged
//	NAME.answer.KEY                          its answer: the first one that was stored
//	NAME.dead.KEY                            a request that was given up, with the reason
//
// a bucket NAME_known (identities of workers, lanes, clocks of batches), and a bucket NAME_large for answers that are
// longer than a message may be.
type Queue struct {
	o       QueueOptions
	nc      *nats.Conn
	js      jetstream.JetStream
	work    jetstream.Stream
	answers jetstream.Stream
	leader  jetstream.Stream // the answers, read from the replica that has the last ones
	known   jetstream.KeyValue
	large   jetstream.ObjectStore

	made     map[string]time.Time // when the streams were, by their names
	longest  int64                // bytes of an answer, in tests; 0: mostAnswer
	callTime time.Duration        // in tests; 0: callTime
}

// Headers of messages.
const (
	headerKey      = "Spec-Key"
	headerIdentity = "Spec-Identity"
	headerReason   = "Spec-Reason" // of a dead letter
	headerTries    = "Spec-Tries"  // likewise
)

// Priorities in the order in which workers look for requests.
var Priorities = []string{"high", "normal", "low"}

var word = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// OpenQueue finds the streams of a queue, or makes them.
func OpenQueue(ctx context.Context, nc *nats.Conn, o QueueOptions) (*Queue, error) {
	if o.Name == "" {
		o.Name = "spec"
	}
	if !word.MatchString(o.Name) {
		return nil, fmt.Errorf("queue %q: a name has letters, digits, - and _, at most 64", o.Name)
	}
	defaults(&o)
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	q := &Queue{o: o, nc: nc, js: js}
	if q.work, err = q.stream(ctx, jetstream.StreamConfig{
		Name: o.Name + "_work", Subjects: []string{o.Name + ".work.>"}, Retention: jetstream.WorkQueuePolicy,
		Description: "requests that wait or are being answered",
		// A request that is there already is refused, also while it is being answered.
		Discard: jetstream.DiscardNew, DiscardNewPerSubject: true, MaxMsgsPerSubject: 1,
	}); err != nil {
		return nil, err
	}
	if q.answers, err = q.stream(ctx, jetstream.StreamConfig{
		Name: o.Name + "_answers", Subjects: []string{o.Name + ".answer.*", o.Name + ".dead.*"}, AllowDirect: true,
		Description: "answers by the keys of their requests, and requests that were given up", MaxAge: o.Keep,
	}); err != nil {
		return nil, err
	}
	if q.leader, err = q.leading(ctx, o.Name+"_answers"); err != nil {
		return nil, err
	}
	q.known, err = js.KeyValue(ctx, o.Name+"_known")
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		q.known, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: o.Name + "_known", Replicas: o.Replicas})
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s_known: %w", o.Name, err)
	}
	q.large, err = js.ObjectStore(ctx, o.Name+"_large")
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		q.large, err = js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket: o.Name + "_large", TTL: o.Keep + longestStore, Replicas: o.Replicas})
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s_large: %w", o.Name, err)
	}
	q.made = map[string]time.Time{}
	for _, name := range []string{o.Name + "_work", o.Name + "_answers", bucketStream + o.Name + "_known",
		objectStream + o.Name + "_large"} {
		s, err := js.Stream(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", name, err)
		}
		q.made[name] = s.CachedInfo().Created
	}
	return q, nil
}

// What one call to the servers may take: callTime, for they may be away, and the time of what it moves at leastRate.
const (
	callTime  = 30 * time.Second
	leastRate = 64 << 10 // bytes per second

	// longestStore is how long an object may be there before its answer, which must not be there longer.
	longestStore = callTime + mostAnswer/leastRate*time.Second
)

// bounded bounds a call to the servers that moves so many bytes at most.
func (q *Queue) bounded(ctx context.Context, bytes int64) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, q.patience()+time.Duration(bytes)*time.Second/leastRate)
}

// patience is how long servers that are away are waited for.
func (q *Queue) patience() time.Duration { return cmp.Or(q.callTime, callTime) }

// publish stores a message.
func (q *Queue) publish(ctx context.Context, m *nats.Msg, o ...jetstream.PublishOpt) error {
	ctx, cancel := q.bounded(ctx, int64(len(m.Data)))
	defer cancel()
	_, err := q.js.PublishMsg(ctx, m, o...)
	return err
}

// last is the last message of a subject of the answers; jetstream.ErrMsgNotFound: there is none.
func (q *Queue) last(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := q.bounded(ctx, q.nc.MaxPayload())
	defer cancel()
	return q.leader.GetLastMsgForSubject(ctx, subject)
}

// leading is a stream as its leader has it. Direct reads, which the library prefers, are answered by any replica, and
// it may lag: what it does not have may be there, and what it has may have been removed.
func (q *Queue) leading(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := q.js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", name, err)
	}
	if config := &s.CachedInfo().Config; config.Replicas > 1 {
		config.AllowDirect = false // by which the library knows
	}
	return s, nil
}

// forget removes what has been told of a request that was given up, and its answer if that cannot be read.
func (q *Queue) forget(ctx context.Context, key string) error {
	told := []string{q.deadSubject(key)}
	if _, err := q.answer(ctx, key); errors.Is(err, errUnreadable) {
		told = append(told, q.answerSubject(key))
	}
	ctx, cancel := q.bounded(ctx, 0)
	defer cancel()
	for _, subject := range told {
		if err := q.answers.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
			return err
		}
	}
	return nil
}

// What begins the names of streams of buckets of keys, and of objects.
const bucketStream, objectStream = "KV_", "OBJ_"

func defaults(o *QueueOptions) {
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	if o.Keep == 0 {
		o.Keep = 7 * 24 * time.Hour
	}
	if o.Lease == 0 {
		o.Lease = 30 * time.Second
	}
	if o.InFlight == 0 {
		o.InFlight = 1000
	}
}

// stream finds a stream or makes it.
func (q *Queue) stream(ctx context.Context, c jetstream.StreamConfig) (jetstream.Stream, error) {
	c.Storage, c.Replicas = jetstream.FileStorage, q.o.Replicas
	s, err := q.js.Stream(ctx, c.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if s, err = q.js.CreateStream(ctx, c); errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			s, err = q.js.Stream(ctx, c.Name) // another program has made it just now
		}
	}
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", c.Name, err)
	}
	return s, nil
}

// lane is the requests for one identity, of one priority and one tenant. Each has a consumer of its own.
type lane struct{ identity, priority, tenant string }

// subjectWord is how an identity stands in subjects.
func subjectWord(identity string) string { return identity[:min(32, len(identity))] }

func (l lane) entry() string {
	return "lane." + subjectWord(l.identity) + "." + l.priority + "." + l.tenant
}

func (q *Queue) workSubject(l lane, key string) string {
	return strings.Join([]string{q.o.Name, "work", subjectWord(l.identity), l.priority, l.tenant, key}, ".")
}

func (q *Queue) answerSubject(key string) string { return q.o.Name + ".answer." + key }
func (q *Queue) deadSubject(key string) string   { return q.o.Name + ".dead." + key }
func (q *Queue) wakeSubject(identity string) string {
	return q.o.Name + ".wake." + subjectWord(identity)
}

// job is a request as the queue holds it.
type job struct {
	Path string          `json:"path"`
	Body json.RawMessage `json:"body"`
}

// encode writes JSON with texts as they are: json.Marshal would escape < and others within a body, whose key is then
// that of another one.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// message is a request in a lane.
func (q *Queue) message(l lane, r Request) (*nats.Msg, error) {
	data, err := encode(job{r.Path, r.Body})
	if err != nil {
		return nil, err
	}
	key := Key(l.identity, r)
	m := nats.NewMsg(q.workSubject(l, key))
	m.Data = data
	m.Header.Set(headerKey, key)
	m.Header.Set(headerIdentity, l.identity)
	if size := int64(len(data)) + headerRoom; size > q.nc.MaxPayload() {
		return nil, fmt.Errorf("%w: %d bytes, and max_payload of the NATS server is %d", errTooLarge, size, q.nc.MaxPayload())
	}
	return m, nil
}

const headerRoom = 512 // bytes of a message's headers, at most

var errTooLarge = errors.New("the request is too large for the queue")

// Answer is an answer as the queue holds it.
type Answer struct {
	Status int             `json:"status_code"`
	Body   json.RawMessage `json:"body,omitempty"`
	Object string          `json:"object,omitempty"` // where Body is, if it is longer than a message may be
}

// store stores the answer to a request. won is false where another one is there; that one stays. Where it fails it may
// be called again with the same a, which has what is done: the object.
func (q *Queue) store(ctx context.Context, key string, a *Answer) (won bool, err error) {
	data, err := encode(a.stored())
	if err != nil {
		return false, fmt.Errorf("%w: %w", errUnstorable, err)
	}
	if int64(len(data))+headerRoom > q.nc.MaxPayload() {
		object := key + "." + nats.NewInbox()[len(nats.InboxPrefix):] // two workers may store one at once
		how := jetstream.ObjectMeta{Name: object, Opts: &jetstream.ObjectMetaOptions{
			ChunkSize: uint32(min(128<<10, q.nc.MaxPayload()-headerRoom))}}
		long, cancel := q.bounded(ctx, int64(len(a.Body)))
		defer cancel()
		if _, err := q.large.Put(long, how, bytes.NewReader(a.Body)); err != nil {
			return false, fmt.Errorf("object %s: %w", object, err)
		}
		a.Object = object
		if data, err = encode(a.stored()); err != nil {
			return false, err
		}
	}
	err = q.publish(ctx, &nats.Msg{Subject: q.answerSubject(key), Data: data},
		jetstream.WithExpectLastSequencePerSubject(0))
	if !isCode(err, jetstream.JSErrCodeStreamWrongLastSequence) {
		return err == nil, err
	}
	// It may be this one, of a call before whose success was not heard of.
	m, err := q.last(ctx, q.answerSubject(key))
	if err != nil || bytes.Equal(m.Data, data) {
		return err == nil, err
	}
	if a.Object != "" {
		ctx, cancel := q.bounded(ctx, 0)
		defer cancel()
		_ = q.large.Delete(ctx, a.Object) // else it goes with its time in the bucket
	}
	return false, nil
}

// stored is an answer as its message has it: without a body that is in the bucket.
func (a *Answer) stored() Answer {
	if a.Object != "" {
		return Answer{Status: a.Status, Object: a.Object}
	}
	return *a
}

const codeTooLarge = 10054 // of the server's error for a message that is larger than its stream allows

var (
	errUnstorable = errors.New("the queue cannot store such an answer")
	errUnreadable = errors.New("the stored answer cannot be read")
)

// unstorable reports whether storing failed by what was to be stored.
func unstorable(err error) bool { return errors.Is(err, errUnstorable) || isCode(err, codeTooLarge) }

// isCode reports whether an error is the server's of that code.
func isCode(err error, code jetstream.ErrorCode) bool {
	api := (*jetstream.APIError)(nil)
	return errors.As(err, &api) && api.ErrorCode == code
}

// answer is the stored answer to a request; nil: none. The error of one that is damaged wraps errUnreadable and names
// the message.
func (q *Queue) answer(ctx context.Context, key string) (*Answer, error) {
	m, err := q.last(ctx, q.answerSubject(key))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	a := new(Answer)
	if err = strictjson.Unmarshal(m.Data, a); err == nil && a.Status == 0 {
		err = errors.New("no status")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", m.Subject, errUnreadable, err)
	}
	if a.Object != "" {
		if a.Body, err = q.object(ctx, a.Object); err != nil {
			return nil, fmt.Errorf("%s: object %.100q of bucket %s_large: %w", m.Subject, a.Object, q.o.Name, err)
		}
	}
	return a, nil
}

// mostAnswer is the most bytes of an answer: more than the largest one of a server, the vectors of one request as text.
const mostAnswer = 1 << 30

// object reads the answer that is longer than a message may be. Whoever writes to the bucket says how long it is: what
// comes is counted.
func (q *Queue) object(ctx context.Context, name string) (body []byte, err error) {
	most := cmp.Or(q.longest, mostAnswer)
	size, err := q.whole(ctx, name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := q.bounded(ctx, int64(min(size, uint64(most))))
	defer cancel()
	r, err := q.large.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	body, err = io.ReadAll(io.LimitReader(r, most+1))
	if errors.Is(err, jetstream.ErrDigestMismatch) || errors.Is(err, jetstream.ErrInvalidDigestFormat) {
		err = fmt.Errorf("%w: %w", errUnreadable, err)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case int64(len(body)) > most:
		return nil, fmt.Errorf("%w: more than %d bytes, which no answer has", errUnreadable, most)
	case !json.Valid(body):
		return nil, fmt.Errorf("%w: not JSON", errUnreadable)
	}
	return body, nil
}

// whole is the size of an object of which all parts are there: of one that lacks some the library waits for them.
func (q *Queue) whole(ctx context.Context, name string) (size uint64, err error) {
	ctx, cancel := q.bounded(ctx, 0)
	defer cancel()
	s, err := q.leading(ctx, objectStream+q.o.Name+"_large")
	if err != nil {
		return 0, err
	}
	subject := "$O." + q.o.Name + "_large."
	m, err := s.GetLastMsgForSubject(ctx, subject+"M."+base64.URLEncoding.EncodeToString([]byte(name)))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, fmt.Errorf("%w: %w", errUnreadable, jetstream.ErrObjectNotFound)
	}
	if err != nil {
		return 0, err
	}
	var info jetstream.ObjectInfo
	if err := json.Unmarshal(m.Data, &info); err != nil {
		return 0, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	subject += "C." + info.NUID
	parts, err := s.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return 0, err
	}
	if n := parts.State.Subjects[subject]; n == 0 || n != uint64(info.Chunks) {
		return 0, fmt.Errorf("%w: %d of its %d parts are there", errUnreadable, n, info.Chunks)
	}
	return info.Size, nil
}

// Identities are those of the workers that have been seen, by their sums.
func (q *Queue) Identities(ctx context.Context) (map[string]spec.Identity, error) {
	ctx, cancel := q.bounded(ctx, q.nc.MaxPayload())
	defer cancel()
	watch, err := q.known.Watch(ctx, "identity.*", jetstream.IgnoreDeletes())
	if err != nil {
		return nil, err
	}
	defer func() { _ = watch.Stop() }() // it ends with ctx too
	all := map[string]spec.Identity{}
	for e := range watch.Updates() {
		if e == nil { // behind all that there are
			return all, nil
		}
		var id spec.Identity
		if err := json.Unmarshal(e.Value(), &id); err != nil {
			return nil, fmt.Errorf("bucket %s: %s: %w", q.known.Bucket(), e.Key(), err)
		}
		all[strings.TrimPrefix(e.Key(), "identity.")] = id
	}
	return nil, cmp.Or(ctx.Err(), errClosed)
}

// announce makes an identity known.
func (q *Queue) announce(ctx context.Context, sum string, id spec.Identity) error {
	text, err := json.Marshal(id)
	if err == nil {
		_, err = q.known.Put(ctx, "identity."+sum, text)
	}
	return err
}

// Clock is the clock of a batch's lines that have none: the time at which it was first asked for, on whatever machine,
// so that a batch that is submitted again asks for the same answers. sum identifies the batch.
func (q *Queue) Clock(ctx context.Context, sum string, now time.Time) (time.Time, error) {
	ctx, cancel := q.bounded(ctx, 0)
	defer cancel()
	name := "clock." + sum
	now = now.UTC().Truncate(time.Second)
	for {
		_, err := q.known.Create(ctx, name, []byte(now.Format(time.RFC3339)))
		if !errors.Is(err, jetstream.ErrKeyExists) {
			return now, err
		}
		e, err := q.known.Get(ctx, name)
		if errors.Is(err, jetstream.ErrKeyNotFound) { // a replica that lags
			sleep(ctx, shortestFailPause)
			continue
		}
		if err != nil {
			return now, err
		}
		t, err := time.Parse(time.RFC3339, string(e.Value()))
		if err != nil {
			return now, fmt.Errorf("bucket %s: %s: %w", q.known.Bucket(), name, err)
		}
		return t, nil
	}
}
