package netns

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// Of linux/if_tun.h.
const (
	tunDevice = "/dev/net/tun"
	tunSetIff = 0x400454ca
	iffTun    = 0x0001
	iffNoPI   = 0x1000
)

// mtu is that of all devices: larger packets cost the switch less, and 9000 is what networks of
// data centres have.
const mtu = 9000

// openTun makes a device whose packets this process reads and writes, whatever namespace the
// device is moved to.
func openTun(name string) (*os.File, error) {
	fd, err := syscall.Open(tunDevice, syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("netns: %s: %w", tunDevice, err)
	}
	var request [40]byte // struct ifreq
	copy(request[:syscall.IFNAMSIZ-1], name)
	*(*uint16)(unsafe.Pointer(&request[syscall.IFNAMSIZ])) = iffTun | iffNoPI
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), tunSetIff, uintptr(unsafe.Pointer(&request))); e != 0 {
		_ = syscall.Close(fd)
		return nil, fmt.Errorf("netns: device %s: %w", name, e)
	}
	return os.NewFile(uintptr(fd), name), nil
}
