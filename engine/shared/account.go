package shared

import "time"

const (
	loadWeight = 0.25 // of a pass in a session's mean of what else is in its passes
	leastShare = 1.5  // sessions in a pass from which it counts as shared
	generates  = 4    // passes without a session after which it no longer counts as one that generates
)

// shares is what a session knows of its passes.
type shares struct {
	spent  time.Duration
	rows   int     // of its last pass, without those of prompts
	among  int     // sessions that shared it
	others float64 // mean number of the other sessions' rows
	peers  float64 // mean number of sessions, itself included
}

// account learns from a pass and charges its time to the sessions in it.
func (c *Scheduler) account(took time.Duration, err error) {
	rows, prompts, sessions := 0, 0, 0
	for i, s := range c.taken {
		n := len(c.batch[i].Tokens)
		s.pass = c.stats.Passes + 1
		if s.chunk {
			prompts += n
		} else {
			rows += n
			sessions++
		}
		c.stats.Tokens += int64(n)
		c.stats.PromptTokens += int64(n)
		if w := int64(c.batch[i].Logits); w > 0 {
			c.stats.PromptTokens -= w
		} else if w < 0 {
			c.stats.PromptTokens -= int64(n)
		}
	}
	c.stats.Passes++
	c.stats.Segments += int64(len(c.taken))
	c.stats.PassTime += took
	seconds := took.Seconds()
	usual := seconds // of the rows that are not prompts'
	switch {
	case err != nil:
		return
	case rows == 0:
		usual = 0
	case prompts > 0:
		usual = min(usual, c.cost.At(float64(rows)))
	}
	fixed, row := c.cost.Split(float64(rows))
	scale := 0.0
	if sum := fixed + float64(row*float64(rows)); sum > 0 {
		scale = usual / sum
	}
	for i, s := range c.taken {
		n := len(c.batch[i].Tokens)
		if s.chunk {
			s.cost.spend((seconds - usual) * float64(n) / float64(prompts))
			continue
		}
		s.cost.rows, s.cost.among = rows, sessions
		s.cost.spend(scale * (fixed/float64(sessions) + float64(row*float64(n))))
		if s.cost.peers == 0 || s.cost.peers < leastShare && sessions > 1 { // no longer alone
			s.cost.others, s.cost.peers = float64(rows-n), float64(sessions)
		}
		s.cost.others += float64(loadWeight * (float64(rows-n) - s.cost.others))
		s.cost.peers += float64(loadWeight * (float64(sessions) - s.cost.peers))
	}
}

func (s *shares) spend(seconds float64) {
	s.spent += time.Duration(seconds * float64(time.Second))
}
