package serve

import (
	"log/slog"
	"net"
	"os"
	"strings"
)

// notifySystemd tells systemd the state of a service of Type=notify: READY=1 or STOPPING=1
// (https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html). Started otherwise, the program has no
// NOTIFY_SOCKET, and nothing is sent.
func notifySystemd(state string, log *slog.Logger) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if strings.HasPrefix(path, "@") { // an abstract socket
		path = "\x00" + path[1:]
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err == nil {
		_, err = conn.Write([]byte(state))
		_ = conn.Close()
	}
	if err != nil {
		log.Warn("systemd was not notified", "state", state, "err", err)
	}
}
