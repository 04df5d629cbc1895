package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"strings"

	"github.com/specgo/spec"
	"github.com/specgo/spec/cluster/s3cache"
)

// promptCache is where computed prompts are kept for all workers.
type promptCache struct{ bucket, endpoint, region string }

func (p *promptCache) define(f *flag.FlagSet) {
	f.StringVar(&p.bucket, "cache-s3", "", "`BUCKET[/PREFIX]` of computed prompts for all workers, signed with "+
		"AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN")
	f.StringVar(&p.endpoint, "cache-endpoint", "", "`URL` of its server, as https://minio:9000; else "+
		"AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or Amazon's of the region")
	f.StringVar(&p.region, "cache-region", "", "`NAME` of its region; else AWS_REGION, or us-east-1")
}

// given reports whether a flag says where a bucket is.
func (p *promptCache) given() bool { return p.endpoint != "" || p.region != "" }

// stored is the store; nil without a bucket. A store that fails costs time and no answer: its errors are logged.
func (p *promptCache) stored(env func(string) string, log *slog.Logger) (*spec.Stored, error) {
	if p.bucket == "" {
		return nil, nil
	}
	key := s3cache.Credentials{AccessKey: env("AWS_ACCESS_KEY_ID"), SecretKey: env("AWS_SECRET_ACCESS_KEY"),
		SessionToken: env("AWS_SESSION_TOKEN")}
	if key.AccessKey == "" || key.SecretKey == "" {
		return nil, errors.New("-cache-s3: AWS_ACCESS_KEY_ID or AWS_SECRET_ACCESS_KEY is not set")
	}
	region := cmp.Or(p.region, env("AWS_REGION"), "us-east-1")
	bucket, prefix, _ := strings.Cut(p.bucket, "/")
	s, err := s3cache.New(s3cache.Options{
		Endpoint: cmp.Or(p.endpoint, env("AWS_ENDPOINT_URL_S3"), env("AWS_ENDPOINT_URL"),
			"https://s3."+region+".amazonaws.com"),
		Region: region, Bucket: bucket, Prefix: prefix, Credentials: key,
	})
	if err != nil {
		return nil, fmt.Errorf("-cache-s3 %s: %w", p.bucket, err)
	}
	return &spec.Stored{Store: s, Failed: func(err error) { log.Warn("the prompt cache fails", "error", err) }}, nil
}
