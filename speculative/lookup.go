package speculative

import (
	"context"
	"slices"

	"github.com/specgo/spec/speculative/lookup"
)

// Lookup drafts a chain of what sources say: at each token that of the source with the longest match. The confidence
// is that of [NGram].
func Lookup(list ...CandidateSource) Drafter { return &lookups{sources: list} }

type lookups struct {
	sources sources
	matches
	path []int32
}

func (l *lookups) Start(_ context.Context, s Setup) error {
	l.sources.reset(s.Input)
	return nil
}

func (l *lookups) Draft(_ context.Context, sequence []int32, d *Draft) error {
	l.begin()
	if !d.More() {
		return nil
	}
	l.sources.begin(sequence)
	l.path = append(append(l.path[:0], sequence...), d.Tokens...)
	d.Source = SourceLookup
	for d.More() {
		n := d.Len()
		id, match := l.sources.next(l.path, n)
		if match == 0 || !d.Add(id, l.confidence(match), nil) {
			break
		}
		l.drafted(id, match, n)
		d.Extend(n)
		l.path = append(l.path, d.Tokens[n:]...)
	}
	return l.sources.err()
}

// Continues says that the lookup continues forced tokens.
func (l *lookups) Continues() bool { return true }

func (l *lookups) Observe(r *Round) { l.observe(r) }

// IndexSource is what followed the longest match of the path's end in the texts of an index: the token that did most
// often. Where others followed too, the match counts as so much shorter. The index may have many sources at once; one
// that turns out damaged ends the text with an error.
func IndexSource(x *lookup.Index) CandidateSource { return &indexSource{index: x} }

// mostSearches is how many branches of a draft are searched for by themselves, where the match of the sequence's end
// does not lead to them, or stands for many places of which few examples are left.
const mostSearches = 4

type indexSource struct {
	index    *lookup.Index
	root, at lookup.Match // of the sequence's end; behind branch
	branch   []int32      // drafted tokens
	searches int          // that are left in this draft
	failed   error
}

func (s *indexSource) Reset() { s.failed = nil }

// Err is the first error.
func (s *indexSource) Err() error { return s.failed }

func (s *indexSource) Begin(sequence []int32) {
	s.searches, s.branch = mostSearches, s.branch[:0]
	s.search(&s.root, sequence)
	s.at.Copy(&s.root)
}

func (s *indexSource) search(m *lookup.Match, path []int32) {
	if s.failed == nil {
		s.failed = s.index.Match(m, path, 0)
	}
}

func (s *indexSource) Next(path []int32, branch int) (id int32, match int) {
	drafted := path[len(path)-branch:]
	if len(s.branch) > branch || !slices.Equal(s.branch, drafted[:len(s.branch)]) {
		s.branch = s.branch[:0]
		s.at.Copy(&s.root)
	}
	for _, id := range drafted[len(s.branch):] {
		s.branch = append(s.branch, id)
		if s.failed == nil && s.at.Length() > 0 {
			s.failed = s.index.Step(&s.at, id)
		}
	}
	if s.failed == nil && (s.at.Length() == 0 || s.at.Sparse()) && branch > 0 && s.searches > 0 {
		s.searches--
		s.search(&s.at, path)
	}
	if s.failed != nil || s.at.Length() == 0 {
		return 0, 0
	}
	id, count, places, err := s.index.Next(&s.at)
	if s.failed = err; err != nil || count == 0 {
		return 0, 0
	}
	return id, max(1, s.at.Length()*count/places)
}

// RecentSource is what followed the latest of the longest matches of the path's end in what a key wrote lately.
func RecentSource(r *lookup.Recent, key string) CandidateSource {
	return &recentSource{recent: r, key: key}
}

type recentSource struct {
	recent   *lookup.Recent
	key      string
	at       lookup.Place
	skipped  int // drafted tokens in front of it
	searches int // that are left in this draft
}

func (*recentSource) Reset() {}

func (s *recentSource) Begin(sequence []int32) {
	s.at, s.skipped, s.searches = s.recent.Match(s.key, sequence), 0, mostSearches
}

func (s *recentSource) Next(path []int32, branch int) (id int32, match int) {
	for {
		behind := branch - s.skipped
		if behind >= 0 && s.recent.Follows(&s.at, path[len(path)-behind:]) {
			if id, ok := s.recent.Next(&s.at, behind); ok {
				return id, s.at.Length() + behind
			}
		}
		if branch == 0 || s.searches == 0 {
			return 0, 0
		}
		s.searches--
		if s.at, s.skipped = s.recent.Match(s.key, path), branch; s.at.Length() == 0 {
			return 0, 0
		}
	}
}
