"""Amazon ECR and ECR Public: login, repositories and their settings as code. boto3 comes by requirements/ecr.txt."""
