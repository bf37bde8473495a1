-- Handoffs. What is asked for stands in `offer` and never changes.
CREATE TABLE handoffs (
    id TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL,
    target TEXT NOT NULL,
    call TEXT NOT NULL,
    incarnation TEXT NOT NULL,
    open INTEGER NOT NULL,
    state TEXT NOT NULL,
    acknowledged_by TEXT NOT NULL,
    deadline_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL,
    offer TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX handoffs_call ON handoffs (incarnation, call) WHERE open = 1;
CREATE INDEX handoffs_deadline ON handoffs (deadline_ms) WHERE open = 1;
CREATE INDEX handoffs_ended ON handoffs (changed_ms, id) WHERE open = 0;
