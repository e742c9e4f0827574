CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

INSERT INTO "alembic_version" VALUES('0002');

CREATE TABLE entries (
	position INTEGER NOT NULL,
	kind VARCHAR(16) NOT NULL,
	body TEXT NOT NULL,
	hash VARCHAR(64) NOT NULL,
	PRIMARY KEY (position),
	UNIQUE (hash)
);
