package engine

import (
	"encoding/binary"
	"net/http"
	"net/netip"
	"slices"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

// networkNumber answers the 32 bits that stand for a network in its addresses; a name is made on first use and
// never forgotten. Call with the lock held.
func (w *World) networkNumber(name string) uint32 {
	if n, ok := w.platform.Networks[name]; ok {
		return n
	}
	// The first number leaves room below, so that addresses look like Fly's and no group is zero.
	n := uint32(0x0000_3500) + uint32(len(w.platform.Networks))
	w.platform.Networks[name] = n
	w.savePlatform()
	return n
}

// privateIP makes a machine's address: fdaa, 32 bits of network, 32 of host, 32 of machine, then 2. All machines
// of a network share the first 48 bits.
func (w *World) privateIP(network string) netip.Addr {
	var b [16]byte
	b[0], b[1] = 0xfd, 0xaa
	binary.BigEndian.PutUint32(b[2:], w.networkNumber(network))
	binary.BigEndian.PutUint32(b[6:], 0x0a7b_0001)
	binary.BigEndian.PutUint32(b[10:], w.number())
	b[15] = 2
	return netip.AddrFrom16(b)
}

// IPInput is the body of an allocation.
type IPInput struct {
	Type, Region, Org, Network, Service string
}

// sharedIPv4 is the one address that all apps with a shared one have.
var sharedIPv4 = netip.AddrFrom4([4]byte{198, 19, 255, 1})

// AllocateIP gives an app an address. A private_v6 address lies on the app's own network, or on the named one, and
// is reachable from that one only.
func (w *World) AllocateIP(app string, in IPInput) (state.IP, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, err := w.app(app)
	if err != nil {
		return state.IP{}, err
	}
	if in.Org != "" && !w.OwnOrg(in.Org) {
		return state.IP{}, refuse(http.StatusNotFound, "organization not found")
	}
	ip := state.IP{ID: "ip_" + randomText(16, lower), Type: in.Type, Region: in.Region, Service: in.Service, CreatedAt: w.now()}
	switch in.Type {
	case state.IPv4:
		n := w.number()
		ip.Address = netip.AddrFrom4([4]byte{198, 18 + byte(n>>16)%2, byte(n >> 8), byte(n)})
	case state.IPSharedV4:
		if i := slices.IndexFunc(a.IPs, func(ip state.IP) bool { return ip.Type == state.IPSharedV4 }); i >= 0 {
			return a.IPs[i], nil
		}
		ip.Address = sharedIPv4
	case state.IPv6:
		ip.Address = v6(0x2001_0db8, 0, 0x10000, w.number())
	case state.IPPrivateV6:
		if ip.Network = in.Network; ip.Network == "" {
			ip.Network = a.Network
		}
		if !networkName.MatchString(ip.Network) {
			return state.IP{}, invalid("network %q may hold letters, digits and dashes and starts with a letter", ip.Network)
		}
		if slices.ContainsFunc(a.IPs, func(other state.IP) bool { return other.Network == ip.Network }) {
			return state.IP{}, refuse(http.StatusUnprocessableEntity, "Validation failed: App already has a private address on network %s", ip.Network)
		}
		n := w.networkNumber(ip.Network)
		ip.Address = v6(0xfdaa_0000|n>>16, n<<16, 0x0001_0000, w.number())
	default:
		return state.IP{}, invalid("type %q must be one of v4, shared_v4, v6, private_v6", in.Type)
	}
	a.IPs = append(slices.Clone(a.IPs), ip)
	w.saveApp(a)
	return ip, nil
}

func v6(a, b, c, d uint32) netip.Addr {
	var out [16]byte
	for i, part := range []uint32{a, b, c, d} {
		binary.BigEndian.PutUint32(out[4*i:], part)
	}
	return netip.AddrFrom16(out)
}

// ReleaseIP takes an address from an app, by the address or its id.
func (w *World) ReleaseIP(app, address string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, err := w.app(app)
	if err != nil {
		return err
	}
	want, parseErr := netip.ParseAddr(address)
	left := slices.DeleteFunc(slices.Clone(a.IPs), func(ip state.IP) bool {
		return ip.ID == address || parseErr == nil && ip.Address == want
	})
	if len(left) == len(a.IPs) {
		return refuse(http.StatusNotFound, "ip assignment not found")
	}
	a.IPs = left
	w.saveApp(a)
	return nil
}
