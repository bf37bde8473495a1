//! The Realtime event protocol over WebSocket.
