// Package systemd speaks two small protocols of systemd, which other supervisors speak too: sockets that were opened
// for the program (sd_listen_fds(3)) and messages about its state (sd_notify(3)).
package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// firstFD is the first socket that is passed; the others follow.
const firstFD = 3

// mostFDs bounds the sockets that are taken over.
const mostFDs = 64

// Socket is a socket that was opened for the program.
type Socket struct {
	Name string // FileDescriptorName= of its unit; "" where it is not told
	net.Listener
}

// Given reports whether sockets were opened for this process.
func Given(env func(string) string) bool { return env("LISTEN_PID") == strconv.Itoa(os.Getpid()) }

// Sockets are the sockets that were opened for this process: none, unless they are Given. A file that is no
// stream socket is an error. Sockets may be called once.
func Sockets(env func(string) string) (list []Socket, err error) {
	if !Given(env) {
		return nil, nil
	}
	n, err := strconv.Atoi(env("LISTEN_FDS"))
	if err != nil || n < 0 || n > mostFDs {
		return nil, fmt.Errorf("LISTEN_FDS=%.20q: not a number from 0 to %d", env("LISTEN_FDS"), mostFDs)
	}
	var names []string
	if text := env("LISTEN_FDNAMES"); text != "" {
		names = strings.Split(text, ":")
	}
	for i := range n {
		s := Socket{}
		if i < len(names) && names[i] != "unknown" { // which is what systemd says of sockets without a name
			s.Name = names[i]
		}
		file := os.NewFile(uintptr(firstFD+i), s.Name)
		s.Listener, err = net.FileListener(file)
		err = errors.Join(err, file.Close()) // the listener has a copy
		if err != nil {
			for _, s := range list {
				err = errors.Join(err, s.Close())
			}
			return nil, fmt.Errorf("socket %d of LISTEN_FDS: %w", i, err)
		}
		list = append(list, s)
	}
	return list, nil
}

// Notify tells the supervisor at address, the value of NOTIFY_SOCKET, about the program's state: lines as in "READY=1".
// Without an address it does nothing.
func Notify(address string, lines ...string) error {
	if address == "" {
		return nil
	}
	if strings.HasPrefix(address, "@") { // of Linux' abstract names
		address = "\x00" + address[1:]
	} else if !strings.HasPrefix(address, "/") {
		return fmt.Errorf("NOTIFY_SOCKET=%.60q: not a socket of a file or an abstract name", address)
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		return err
	}
	_, err = c.Write([]byte(strings.Join(lines, "\n")))
	return errors.Join(err, c.Close())
}
