//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package lineedit

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A mode is how the terminal's driver treats what is typed.
type mode struct {
	fd    int
	found unix.Termios
	alarm [2]int // a pipe whose reading end is waited for beside the terminal
}

func openMode(in *os.File) (*mode, error) {
	m := &mode{fd: int(in.Fd())}
	found, err := unix.IoctlGetTermios(m.fd, getTermios)
	if err != nil {
		return nil, ErrNoTerminal
	}
	m.found = *found
	if err := unix.Pipe(m.alarm[:]); err != nil {
		return nil, err
	}
	for _, fd := range m.alarm {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// set changes the driver. What was typed and not read yet stays.
func (m *mode) set(s state) error {
	t := m.found
	if s != asFound {
		t.Iflag &^= unix.ICRNL | unix.INLCR | unix.IGNCR | unix.ISTRIP | unix.IXON
		t.Lflag &^= unix.ICANON | unix.ECHO | unix.ECHONL | unix.IEXTEN
		t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
		t.Cc[unix.VQUIT] = noCharacter
	}
	if s == reading {
		t.Lflag &^= unix.ISIG
	}
	for {
		err := unix.IoctlSetTermios(m.fd, setTermios, &t)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// read reads what was typed, or nothing after a wake.
func (m *mode) read(buf []byte) (int, error) {
	for {
		fds := []unix.PollFd{{Fd: int32(m.fd), Events: unix.POLLIN}, {Fd: int32(m.alarm[0]), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); errors.Is(err, unix.EINTR) {
			continue
		} else if err != nil {
			return 0, err
		}
		if fds[1].Revents != 0 {
			var woken [64]byte
			unix.Read(m.alarm[0], woken[:])
			return 0, nil
		}
		n, err := unix.Read(m.fd, buf)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case err == nil && n <= 0, errors.Is(err, unix.EIO): // the terminal is gone
			return 0, io.EOF
		}
		return n, err
	}
}

// wake ends a read, or the next one. A pipe that is full wakes it too.
func (m *mode) wake() { unix.Write(m.alarm[1], []byte{0}) }

// stopDelay is how long a signal may take to the thread that it stops the process in. It has passed when the process is
// continued.
const stopDelay = 100 * time.Millisecond

// stopProcess stops the group of the process as the terminal does at ctrl-z. A group that has no parent in its session
// is continued by nobody, and goes on. The signal is not SIGTSTP, which stops no process that has ever caught it.
func stopProcess() {
	parent := unix.Getppid()
	mine, err1 := unix.Getsid(0)
	other, err2 := unix.Getsid(parent)
	group, err3 := unix.Getpgid(parent)
	if errors.Join(err1, err2, err3) != nil || mine != other || group == unix.Getpgrp() {
		return
	}
	unix.Kill(0, unix.SIGSTOP)
	time.Sleep(stopDelay)
}
