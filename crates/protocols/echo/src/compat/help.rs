//! Usage.

/// The client's.
pub(crate) const CLIENT: &str = "\
RtTcpipClient, spoken by netcaliper: round trips to an echo server

usage: RtTcpipClient i=<server> [arguments]

  i=<ip>     address of the server (required)
  o=<id>     scope of a link-local IPv6 address: a number or an interface
  p=<n>      its port (default 9999)
  a=<ip>     local address to bind to
  b=0|1      0: the first 500 packets are not in the results, 1: they are (default 0)
  c=<n>      connections, one after the other (default 1)
  e=<n>      most bytes handed to one send (default: the whole message)
  g=0|1      0: rates with three decimals (default 1)
  k, k=<n>   ask the server to end, and do nothing else; works with netcaliper's servers only. They are asked at this port:
             without, of a server on this host the one after p=, then 7411 (netcaliper serve)
  m=<n>      messages of each connection (default 10000)
  n=0|1      Nagle's algorithm off or on; must be equal on both ends (default 0)
  r=<n>      a progress line every n messages (default 500)
  s=<n>      bytes of a message (default 1024)
  t=<n>      UDP: longest wait for an echo, ms (default 1000)
  w=<n>      send and receive buffer, bytes (default: the system's)
  /udp       UDP instead of TCP
  /silent    print nothing after the start; the exit code is the result
  /?         this text
  --as-original  rates by the original's arithmetic: 1 Kbit = 1024 bit, whole numbers; with b=0, too, the results have
             all packets

Exit code: 0 all messages returned, 1 some were lost or damaged, 2 invalid command line.
";

/// The server's.
pub(crate) const SERVER: &str = "\
RtTcpipServer, spoken by netcaliper: sends back all that it receives

usage: RtTcpipServer [arguments]

  i=<ip>     address to listen on (default: all)
  f=v4|v6    v4: IPv4 only, without i= (default: both families)
  n=0|1      Nagle's algorithm off or on; must be equal on both ends (default 0)
  p=<n>      port (default 9999)
  k=<n>      port, on this host only, at which it may be asked to end (default: the one after p=)
  /udp       UDP as well as TCP; only to this host and directly connected networks, unless NETCALIPER_ALLOW
             names others: a datagram proves no address
  /s         one thread
  /?         this text
";
