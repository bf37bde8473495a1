// Passes connections on to a server and cuts them when told: a network that fails.
import { connect, createServer } from 'node:net';

/**
 * Listens on a free loopback port for the server of a URL; gives its `port`, `cut()` (all connections,
 * at once) and `close()`.
 */
export async function openRelay({ protocol, hostname, port }) {
  const server = Number(port) || (/^(https|wss):$/.test(protocol) ? 443 : 80); // a default one is ""
  const sockets = new Set();
  const listener = createServer((near) => {
    const far = connect(server, hostname);
    for (const [socket, other] of [[near, far], [far, near]]) {
      sockets.add(socket);
      socket.on('error', () => {}); // it closes, and `close` follows
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
    }
    near.pipe(far);
    far.pipe(near);
  });
  await new Promise((listening) => listener.listen(0, '127.0.0.1', listening));
  const cut = () => sockets.forEach((socket) => socket.resetAndDestroy());
  return { port: listener.address().port, cut, close: () => (cut(), listener.close()) };
}
