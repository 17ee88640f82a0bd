. /opt/slipway/environment
