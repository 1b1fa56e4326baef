//! Usage.

/// The text for an invalid command line, on stdout as the original does.
pub(crate) const USAGE: &str = "
bwdelaytester, spoken by netcaliper: received rate, loss and one-way latency of a stream of UDP datagrams

client: bwdelaytester -c <server> -p <bytes> (-b <Mbit/s> | -d <ns>) [-s] [-n] [-a] [-i <interface>]
server: bwdelaytester [-s] [-a] [-l <ms>] [-i <interface>]

  -c <host>  be the client, and send to this address
  -p <n>     bytes of UDP payload in a datagram, 16 to 2000
  -b <n>     rate of the payload, Mbit/s
  -d <n>     or time from one datagram to the next, ns
  -s         client: raise the rate from 1 % to 100 % in 100 steps of 2 s, then end;
             server: print a table of loss and latency by rate at the end
  -a         the clocks of client and server are not synchronised (on both ends): latencies are relative
  -l <ms>    server: latency of the fastest datagram, which is added to relative latencies
  -n         client: give up what the socket has no room for, instead of waiting
  -i <name>  network interface to bind to

  --port <n>     another port than 8888; a server takes a free one for 0, and says which
  --save <file>  keep the run, for netcaliper report
  --as-original  the original's arithmetic, mistakes and all

A server prints a line every 0.1 s: bytes/s, datagrams/s, datagrams lost, runs of lost ones, and the least, largest and mean
latency in us; at its end (Ctrl-C) a histogram of latencies and, with -s, the table, on stderr.
";
