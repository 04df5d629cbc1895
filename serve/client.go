package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Key is an API key.
type Key struct {
	Secret string
	Weight int  // its share of places and queue relative to other keys that ask at the same time; 0 is 1
	Admin  bool // it may change which models there are
}

// MaxWeight is the greatest weight of a key.
const MaxWeight = 1000

// client is who asks, as far as the server can tell: one for each API key, and one for everybody on a server without
// keys.
type client struct {
	secret [sha256.Size]byte // hash of the key
	// by which what is kept for prompts that begin alike is kept apart; it does not tell the key
	id     string
	weight float64
	admin  bool

	places, preparing, slotting share // of the queues of these names
}

func newClient(secret string, weight int) *client {
	sum, w := sha256.Sum256([]byte(secret)), float64(max(weight, 1))
	id := sha256.Sum256(append([]byte("client "), sum[:]...))
	return &client{
		secret: sum, id: hex.EncodeToString(id[:16]), weight: w, places: share{weight: w}, preparing: share{weight: w},
		slotting: share{weight: w},
	}
}

// clientsOf makes the clients of keys.
func clientsOf(keys []Key) []*client {
	list := make([]*client, 0, len(keys))
	for _, k := range keys {
		c := newClient(k.Secret, k.Weight)
		c.admin = k.Admin
		list = append(list, c)
	}
	return list
}

// shown is the client whose key a request shows; nil if it shows none of the keys. On a server without keys it is
// everybody.
func (s *Server) shown(r *http.Request) (found *client) {
	clients := *s.clients.Load()
	if len(clients) == 0 {
		return s.anyone
	}
	key := r.Header.Get("X-Api-Key")
	if scheme, k, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		key = strings.TrimSpace(k)
	}
	given := sha256.Sum256([]byte(key))
	for _, c := range clients { // all of them: the time does not tell which
		if subtle.ConstantTimeCompare(given[:], c.secret[:]) == 1 {
			found = c
		}
	}
	return found
}

// open reports whether a request needs no key: health checks and the page's files.
func (s *Server) open(r *http.Request) bool {
	switch r.URL.Path {
	case "/health", "/v1/health", "/livez", "/readyz":
		return true
	}
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && s.isPage(r.URL.Path)
}

// network is what counts as one address: an IPv4 address, or the /64 network of an IPv6 address, which is one
// customer's.
func network(a netip.Addr) netip.Addr {
	const customer = 64 // bits
	if a = a.Unmap().WithZone(""); a.Is6() {
		p, _ := a.Prefix(customer) // an IPv6 address has that many bits
		return p.Addr()
	}
	return a
}

// trusted reports whether an address is that of a proxy whose word counts.
func (s *Server) trusted(a netip.Addr) bool {
	return slices.ContainsFunc(
		s.o.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(a.Unmap().WithZone("")) },
	)
}

// address is the network that a request comes from. Behind a trusted proxy it is what the proxy says: the last address
// of X-Forwarded-For, or without that of Forwarded (RFC 7239), which is no trusted proxy's itself. It is invalid where
// the proxy says nothing that can be read.
func (s *Server) address(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	if !s.trusted(peer.Addr()) {
		return network(peer.Addr())
	}
	list := r.Header.Values("X-Forwarded-For")
	if list == nil {
		for pair := range strings.SplitSeq(
			strings.ReplaceAll(strings.Join(r.Header.Values("Forwarded"), ","), ";", ","), ",",
		) {
			if name, value, _ := strings.Cut(pair, "="); strings.EqualFold(strings.TrimSpace(name), "for") {
				list = append(list, value)
			}
		}
	}
	for _, text := range slices.Backward(strings.Split(strings.Join(list, ","), ",")) {
		a, ok := parseAddress(text)
		if !ok {
			return netip.Addr{}
		}
		if !s.trusted(a) {
			return network(a)
		}
	}
	return netip.Addr{}
}

// parseAddress reads an address as proxies write it: with or without quotes, brackets and a port.
func parseAddress(text string) (netip.Addr, bool) {
	text = strings.Trim(strings.TrimSpace(text), `"`)
	if p, err := netip.ParseAddrPort(text); err == nil {
		return p.Addr(), true
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	return a, err == nil
}
