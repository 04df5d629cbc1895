// Package fleet predicts how long requests take on a machine that answers several at once, and how many machines a load
// needs: from the measured times of passes, by simulating the machine's queue.
//
// The model of a machine is the policy of engine/shared, whose tests compare both over the same requests: places that
// are taken in order of arrival, passes with a token of each answer, and beside them as many tokens of prompts as delay
// the answers by a bound. Its times are those of passes alone: drafts, prompts that begin alike, memory that runs out,
// templates, tokenizers and sockets are not in it.
package fleet
