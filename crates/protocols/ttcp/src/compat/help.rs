//! Usage.

/// Completions of `ttcp`, as Teldat's manual shows them.
pub(super) const ROLES: &str = "\
tx  client
rx  server
<cr>  ask for epittcp options
";

/// Completion of `ttcp tx`.
pub(super) const HOST: &str = "<a.b.c.d> destination host: IP address\n";

/// The usage of both command lines.
pub(crate) const PAGE: &str = "\
ttcp, spoken by netcaliper: one TCP connection, or datagrams between markers, timed by both ends

usage: ttcp tx <host> [options]      send, as Teldat's ttcp does
       ttcp rx [options]             receive
       ttcp                          ask for the options, on a terminal
       ttcp -t [letters] <host>      send, as the classic program does
       ttcp -r [letters]             receive

Teldat's options (with the letters they replaced):
  nsrcb <n>     -n   buffers to send (2048); nsrbc is taken, too
  blen <bytes>  -l   bytes of each write or read (8192)
  port <n>      -p   port (5001)
  timeout <ms>  -w   rx: end after this time without data or a connection
                     (0: after 5 minutes without data, 10 s over UDP)
  verbose       -v   more statistics
  phmarks       -H   a # per buffer
  nbhmarks <n>  -#   a # every n buffers
  sbsize <n>    -b   socket buffer (65535); of a receiver with --as-original 131072 at most
  nsrcbb <n>    -Ns  with rlimit, buffers that leave at once before the next wait; without it the rate is even
  random        -x   random payload, which nothing can compress
  iRNG <n>      -I   its seed (1)
  frate <unit>  -f   b (or v), k, m, g: bits; B, K, M, G: bytes (default: bits, with the prefix that fits)
  rlimit <n>    -c   tx: at most n kbit/s
  perc               tx: the progress in percent
  mss <n>            largest segment (1340)
  time <s>           tx: send for this time, whatever nsrcb says
  -u                 UDP with the classic markers, which Teldat's has given up
  On a terminal any key aborts.

Classic letters: -t -r -u -s -v -D -B -H -x, and with a value -l -n -p -b -f -w -I -m -c -#. Rates are by 1024, as
the classic report has them. -s is always in force: data from stdin would measure stdin.

Ours, in both:
  --epi              UDP with epi_ttcp's markers (a receiver understands both)
  --keep             rx: take one connection after the other
  --as-original      the original's arithmetic where it is wrong, and its limits (docs/protocols/ttcp.md)

Exit code: 0 when the data was moved, 1 when something failed, 2 on an invalid command line.
";
