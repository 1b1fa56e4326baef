//! Usage.

pub(crate) const PAGE: &str = "\
ntttcp for Linux, spoken by netcaliper: TCP or UDP over many ports, with or without synchronisation

usage: ntttcp -r[address] [options]     receive
       ntttcp -s<address> [options]     send

  -r [address]  receiver; the address to listen on (default: all)
  -s <address>  sender; the receiver's address or name
  -P <n>        ports of the receiver, one thread each (16)
  -n <n>        sender's threads per port (4)
  -l <n>        connections per thread (1)
  -m <n,cpu,address>  n ports with one thread each; cpu is taken and has no effect; address as with -s or -r
  -p <n>        first data port (5001); the conversation is on the port below
  -N            no synchronisation: no conversation
  -M            receiver: several senders;  -L  sender: the last of them
  -W -t -C <s>  warm-up (0), length (60; 0: until interrupted), cool-down (0)
  -b <n[KMG]>   bytes of each write (128K) or read (64K)
  -B <n[KMG]>   sender: limit of all connections together, bits/s
  -f [port]     sender: fixed local ports from this one on (25001)
  -a <address>  sender: local address
  -u            UDP: a buffer is a datagram (65507 bytes at most)
  --no-delay    TCP_NODELAY
  -H            receiver: one test after the other
  -Q            no real-time throughput;  -V  more detail
  --show-tcp-retrans (-R), --show-nic-packets <if> (-K), --show-dev-interrupts <text> (-I)
  -O [file]  copy of the console's lines;  -x [file]  XML;  -j [file]  JSON
             (ntttcp-for-linux-log.log, .xml, .json)
  -e -D         taken, without an effect here

Windows NTttcp, by its own spelling (any of its words, such as -ns, or --windows):
       ntttcp -s|-r -m <threads,cpu,address>… [-ns] [options]
  one connection per thread, each to a port of its own; several mappings: several receivers
  -ns           no synchronisation (without it: that of Windows, on the ports a thousand above)
  -l -n -t -p   bytes of a buffer (64K; UDP 128), buffers of a thread (20480) or seconds, first port (5001)
  -wu -cd -u -ndl -rb -sb -to -thr -nic -6 -xml [file]; the other words are taken and said to have no effect,
  or refused with the reason

Exit code: 0 good, 23 (-1001) bad arguments, 24 (-1000) refused, busy or unreachable.
";
