// Package cluster has several machines answer the requests of batches by a work queue: a stream of NATS JetStream.
//
//	q, err := cluster.OpenQueue(ctx, nc, cluster.QueueOptions{})
//	w, err := cluster.NewWorker(ctx, cluster.WorkerOptions{Queue: q, Identity: m.Identity(file), Do: do, Parallel: 8})
//	err = w.Run(ctx) // until ctx ends; then what is under way goes back
//
//	s, err := cluster.NewSubmitter(ctx, cluster.SubmitOptions{Queue: q, Identity: sum, Clock: time.Now()})
//	status, answer := s.Do(ctx, cluster.Request{ID: "1", Path: "/v1/completions", Body: body})
//
// A [Submitter] puts the lines of a batch into the queue and collects their answers. Each line gets a seed and a clock
// if it has none ([Complete]), so that its answer is determined: whoever computes it gets the same tokens. A [Worker]
// takes requests, has them answered, stores each answer under the request's key ([Key]) and acknowledges the request
// only then. So a request is answered at least once whatever fails; and as a repeated answer is the same answer, and
// the first one that is stored stays, the result is that of answering exactly once.
//
// docs/CLUSTER.md says what fails how, and what is guaranteed by what.
package cluster
