CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

INSERT INTO "alembic_version" VALUES('0002');

CREATE TABLE invited (
	code VARCHAR(64) NOT NULL,
	PRIMARY KEY (code)
);

CREATE TABLE kept (
	position INTEGER NOT NULL,
	contributor VARCHAR(64) NOT NULL,
	contribution VARCHAR(32) NOT NULL,
	envelope TEXT NOT NULL,
	time INTEGER NOT NULL, code VARCHAR(64) DEFAULT '' NOT NULL,
	PRIMARY KEY (position),
	UNIQUE (contributor),
	UNIQUE (contribution)
);

CREATE TABLE withdrawn (
	contributor VARCHAR(64) NOT NULL,
	contribution VARCHAR(32) NOT NULL,
	time INTEGER NOT NULL, code VARCHAR(64) DEFAULT '' NOT NULL,
	PRIMARY KEY (contributor)
);

CREATE INDEX kept_code ON kept (code);

CREATE INDEX withdrawn_code ON withdrawn (code);
