package connect

import (
	"context"
	"flag"
	"log/slog"
	"strings"
	"testing"
)

// A password in a server's URL is neither in the help, which a mistake in the flags prints, nor in an error: both go to
// logs.
func TestPasswordsAreNotWritten(t *testing.T) {
	var c Flags
	var help strings.Builder
	f := flag.NewFlagSet("test", flag.ContinueOnError)
	f.SetOutput(&help)
	c.Define(f, func(name string) string {
		return map[string]string{"NATS_URL": "nats://worker:hidden@127.0.0.1:1"}[name]
	})
	if err := f.Parse([]string{"-none"}); err == nil || !strings.Contains(help.String(), "NATS_URL") ||
		strings.Contains(help.String(), "hidden") {
		t.Errorf("%v\n%s", err, help.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing is tried twice
	for url, says := range map[string]string{
		"":                                      "NATS at nats://127.0.0.1:1: ",
		"hidden@127.0.0.1:1,nats://127.0.0.1:2": "NATS at 127.0.0.1:1,nats://127.0.0.1:2: ",
		"nats://worker:hidden@a b":              "-nats: nats://a b is no URL",
	} {
		c.url = url
		_, _, err := c.Open(ctx, slog.New(slog.DiscardHandler))
		if err == nil || !strings.HasPrefix(err.Error(), says) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
