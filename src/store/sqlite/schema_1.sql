-- Callbacks. What is asked for stands in `offer` and never changes; the columns beside it are what
-- statements look for and what changes. For an operator: sqlite3 -readonly FILE.
CREATE TABLE callbacks (
    id TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL,
    destination TEXT NOT NULL,
    shelf TEXT NOT NULL CHECK (shelf IN ('open', 'kept', 'dead')),
    state TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    worker TEXT NOT NULL,
    lease_until_ms INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    born_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL,
    detail TEXT NOT NULL,
    idempotency_key TEXT,
    bytes INTEGER NOT NULL,
    offer TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX callbacks_key ON callbacks (tenant, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE UNIQUE INDEX callbacks_destination ON callbacks (destination, tenant) WHERE shelf = 'open';
CREATE INDEX callbacks_tenant ON callbacks (tenant, bytes) WHERE shelf = 'open';
CREATE INDEX callbacks_accepted ON callbacks (due_ms, id) WHERE state = 'accepted';
CREATE INDEX callbacks_due ON callbacks (due_ms, id) WHERE state = 'due';
CREATE INDEX callbacks_expiry ON callbacks (expires_ms) WHERE shelf = 'open';
CREATE INDEX callbacks_lease ON callbacks (lease_until_ms) WHERE state IN ('claimed', 'dialling');
CREATE INDEX callbacks_kept ON callbacks (changed_ms, id) WHERE shelf = 'kept';
CREATE INDEX callbacks_dead ON callbacks (changed_ms, id) WHERE shelf = 'dead';
-- A sealed store writes this to see whether there is room again.
CREATE TABLE probe (id INTEGER PRIMARY KEY, room BLOB) STRICT;
