/**
 * TCP keep-alive, as options of Node's servers and sockets. A peer whose machine or network is gone never closes its connection: a
 * worker's wait would be given a unit that nobody runs until its lease ends. Such a connection ends after 25 s: the system sends ten
 * probes, one a second.
 */
export const keepAlive = { keepAlive: true, keepAliveInitialDelay: 15_000 } as const;
