package s3cache

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Credentials sign requests.
type Credentials struct {
	AccessKey, SecretKey string
	SessionToken         string // of temporary ones; "": none
}

const (
	algorithm = "AWS4-HMAC-SHA256"
	stampForm = "20060102T150405Z"
)

// sign signs a request with AWS Signature Version 4 for S3: its method, path, query, host, all its headers and the
// SHA-256 of its body, in lower-case hexadecimal.
func (c *Credentials) sign(r *http.Request, region, bodySum string, now time.Time) {
	stamp := now.UTC().Format(stampForm)
	r.Header.Set("X-Amz-Date", stamp)
	r.Header.Set("X-Amz-Content-Sha256", bodySum)
	if c.SessionToken != "" {
		r.Header.Set("X-Amz-Security-Token", c.SessionToken)
	}
	names := []string{"host"}
	for name := range r.Header {
		names = append(names, strings.ToLower(name))
	}
	slices.Sort(names)
	var headers strings.Builder
	for _, name := range names {
		value := r.URL.Host
		if name != "host" {
			value = strings.TrimSpace(strings.Join(r.Header.Values(name), ","))
		}
		headers.WriteString(name + ":" + value + "\n")
	}
	signed := strings.Join(names, ";")
	request := strings.Join([]string{
		r.Method, escape(r.URL.Path, "/"), query(r.URL), headers.String(), signed, bodySum}, "\n")
	scope := stamp[:8] + "/" + region + "/s3/aws4_request"
	sum := sha256.Sum256([]byte(request))
	text := strings.Join([]string{algorithm, stamp, scope, hex.EncodeToString(sum[:])}, "\n")
	key := []byte("AWS4" + c.SecretKey)
	for _, part := range []string{stamp[:8], region, "s3", "aws4_request", text} {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(part))
		key = h.Sum(nil)
	}
	r.Header.Set("Authorization", algorithm+" Credential="+c.AccessKey+"/"+scope+",SignedHeaders="+signed+",Signature="+
		hex.EncodeToString(key))
}

// query is a URL's query as it is signed.
func query(u *url.URL) string {
	var list []string
	for name, values := range u.Query() {
		for _, v := range values {
			list = append(list, escape(name, "")+"="+escape(v, ""))
		}
	}
	slices.Sort(list)
	return strings.Join(list, "&")
}

// escape writes all but unreserved characters, and those of kept, as %XX.
func escape(s, kept string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~"+kept, c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteString(string([]byte{'%', digits[c>>4], digits[c&15]}))
		}
	}
	return b.String()
}
