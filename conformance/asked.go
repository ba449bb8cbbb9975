package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
)

// asked is a running program that reads questions as JSON, one after another, and writes an answer to each.
type asked struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	to  *json.Encoder
	of  *json.Decoder
}

func startAsked(ctx context.Context, program string, args ...string) (*asked, error) {
	p := &asked{cmd: exec.CommandContext(ctx, program, args...)}
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		p.in, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	p.to, p.of = json.NewEncoder(p.in), json.NewDecoder(out)
	return p, nil
}

// ask waits for the answer.
func (p *asked) ask(question, answer any) error {
	return errors.Join(p.to.Encode(question), p.of.Decode(answer))
}

// end ends the program, which has nothing to do.
func (p *asked) end() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }
