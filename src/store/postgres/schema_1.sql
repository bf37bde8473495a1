-- Callbacks. What is asked for stands in `offer` and never changes; the columns beside it are what
-- statements look for and what changes.
CREATE TABLE callbacks (
    id TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL,
    destination TEXT NOT NULL,
    shelf TEXT NOT NULL CHECK (shelf IN ('open', 'kept', 'dead')),
    state TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    worker TEXT NOT NULL,
    lease_until_ms BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    due_ms BIGINT NOT NULL,
    born_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    changed_ms BIGINT NOT NULL,
    detail TEXT NOT NULL,
    idempotency_key TEXT,
    bytes BIGINT NOT NULL,
    offer TEXT NOT NULL
);
CREATE UNIQUE INDEX callbacks_key ON callbacks (tenant, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE UNIQUE INDEX callbacks_destination ON callbacks (destination, tenant) WHERE shelf = 'open';
CREATE INDEX callbacks_tenant ON callbacks (tenant) WHERE shelf = 'open';
CREATE INDEX callbacks_waiting ON callbacks (due_ms, id) WHERE state IN ('accepted', 'due');
CREATE INDEX callbacks_accepted ON callbacks (due_ms) WHERE state = 'accepted';
CREATE INDEX callbacks_expiry ON callbacks (expires_ms) WHERE shelf = 'open';
CREATE INDEX callbacks_lease ON callbacks (lease_until_ms) WHERE state IN ('claimed', 'dialling');
CREATE INDEX callbacks_ended ON callbacks (shelf, changed_ms, id) WHERE shelf <> 'open';
