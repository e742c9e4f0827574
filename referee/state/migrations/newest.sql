CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

INSERT INTO "alembic_version" VALUES('0007');

CREATE TABLE checkpoints (
	run VARCHAR(64) NOT NULL,
	entries INTEGER NOT NULL,
	kept TEXT NOT NULL,
	PRIMARY KEY (run, entries)
);

CREATE TABLE "cohorts" (
	first BIGINT NOT NULL,
	agents BIGINT NOT NULL,
	seed TEXT NOT NULL,
	used BIGINT NOT NULL,
	PRIMARY KEY (first)
);

CREATE TABLE entries (
	run VARCHAR(64) NOT NULL,
	"index" INTEGER NOT NULL,
	step INTEGER,
	kind VARCHAR(32) NOT NULL,
	line TEXT NOT NULL,
	PRIMARY KEY (run, "index"),
	FOREIGN KEY(run) REFERENCES runs (run)
);

CREATE TABLE identity (
	name VARCHAR(16) NOT NULL,
	"key" VARCHAR(64) NOT NULL,
	PRIMARY KEY (name)
);

CREATE TABLE leases (
	name VARCHAR(16) NOT NULL,
	holder VARCHAR(64) NOT NULL,
	token BIGINT NOT NULL,
	expires DOUBLE NOT NULL,
	PRIMARY KEY (name)
);

CREATE TABLE participants (
	first BIGINT NOT NULL,
	"key" BLOB NOT NULL,
	agents BIGINT NOT NULL,
	PRIMARY KEY (first)
);

CREATE TABLE policies (
	first BIGINT NOT NULL,
	policy TEXT NOT NULL,
	PRIMARY KEY (first)
);

CREATE TABLE questions (
	"key" INTEGER NOT NULL,
	run VARCHAR(64) NOT NULL,
	question INTEGER NOT NULL,
	"query" TEXT NOT NULL,
	parts TEXT NOT NULL,
	asked BIGINT NOT NULL,
	open BOOLEAN NOT NULL,
	answered BIGINT NOT NULL,
	PRIMARY KEY ("key"),
	UNIQUE (run, question),
	FOREIGN KEY(run) REFERENCES runs (run)
);

CREATE TABLE rejections (
	process VARCHAR(64) NOT NULL,
	reason VARCHAR(32) NOT NULL,
	count BIGINT NOT NULL,
	PRIMARY KEY (process, reason)
);

CREATE TABLE reports (
	number INTEGER NOT NULL,
	question INTEGER NOT NULL,
	slot BIGINT NOT NULL,
	individual BOOLEAN NOT NULL,
	report_id BLOB NOT NULL,
	answered BIGINT NOT NULL,
	signature BLOB NOT NULL,
	body BLOB NOT NULL,
	message BLOB NOT NULL,
	PRIMARY KEY (number)
);

CREATE TABLE runs (
	run VARCHAR(64) NOT NULL,
	position INTEGER NOT NULL,
	request VARCHAR(64) NOT NULL,
	scenario TEXT NOT NULL,
	seed BIGINT,
	status VARCHAR(16) NOT NULL,
	configuration TEXT,
	result TEXT,
	PRIMARY KEY (run),
	UNIQUE (position)
);

CREATE TABLE tokens (
	purpose VARCHAR(16) NOT NULL,
	sha256 VARCHAR(64) NOT NULL,
	PRIMARY KEY (purpose, sha256)
);

CREATE TABLE vouchers (
	first BIGINT NOT NULL,
	voucher BLOB NOT NULL,
	PRIMARY KEY (first)
);

CREATE INDEX ix_reports_question ON reports (question);

CREATE INDEX ix_questions_open ON questions (open);
