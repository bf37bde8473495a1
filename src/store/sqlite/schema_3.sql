-- Rows that cannot be read, as they were: set aside so that the others live. An operator may mend
-- one and put it back with INSERT INTO callbacks SELECT * FROM callbacks_set_aside.
CREATE TABLE callbacks_set_aside AS SELECT * FROM callbacks WHERE 0;
CREATE TABLE handoffs_set_aside AS SELECT * FROM handoffs WHERE 0;
