"""Several cases in one start of a peer, which costs more than most of them do; Python's standard library only."""


def cases(words):
    """The words of each case: between them stands a word that is `/` alone."""
    found = [[]]
    for word in words:
        if word == "/":
            found.append([])
        else:
            found[-1].append(word)
    return found
