"""Several cases in one start of a peer, which costs more than most of them do; Python's standard library only."""
import json
import signal
import sys
import threading


def cases(words):
    """The words of each case: between them stands a word that is `/` alone."""
    found = [[]]
    for word in words:
        if word == "/":
            found.append([])
        else:
            found[-1].append(word)
    return found


def at_once(ask, all_words):
    """Prints what each call of `ask` told, a line of JSON for each, in their order."""
    told = [None] * len(all_words)

    def one(n):
        told[n] = ask(*all_words[n])

    threads = [threading.Thread(target=one, args=(n,)) for n in range(len(told))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for line in told:
        print(json.dumps(line))
    # The traceback of one that failed is on stderr.
    sys.exit(int(None in told))


def serve(services):
    """Runs services (a function, its socket and its settings) at once. They note what they do, which is printed as a line of JSON for
    each when the process is interrupted (SIGINT); their ports are printed first."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    noted = [{} for _ in services]
    try:
        for (run, sock, how), did in zip(services, noted):
            threading.Thread(target=run, args=(sock, how, did), daemon=True).start()
        print("port", *(sock.getsockname()[1] for _, sock, _ in services), flush=True)
        while True:
            signal.pause()
    except KeyboardInterrupt:
        for did in noted:
            print(json.dumps(did), flush=True)
