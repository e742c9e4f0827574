CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

INSERT INTO "alembic_version" VALUES('0001');

CREATE TABLE codes (
	sha256 VARCHAR(64) NOT NULL,
	request VARCHAR(64),
	PRIMARY KEY (sha256)
);
