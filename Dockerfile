# One image for the node and its workers: `docker run … serve` and `docker run … worker`.

# Whole Debian here: where RocksDB has no prebuilt binding (arm64), npm compiles one.
FROM node:20-bookworm AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev

FROM node:20-bookworm AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY tsconfig.json tsconfig.build.json ./
COPY shared shared
COPY services services
RUN npm run build

FROM node:20-bookworm-slim
ENV NODE_ENV=production FIRN_DATA_DIR=/var/lib/firn
WORKDIR /app
COPY --from=dependencies /app/node_modules node_modules
COPY --from=build /app/dist/shared dist/shared
COPY --from=build /app/dist/services dist/services
COPY package.json ./
COPY services/cli/firn.cjs services/cli/firn.cjs
RUN ln -s /app/services/cli/firn.cjs /usr/local/bin/firn
# A new volume takes over its owner from here.
RUN install -d -o 1000 -g 1000 /var/lib/firn
# The user `node` of the base image, as a number, so that a cluster can see that it is not root.
USER 1000:1000
EXPOSE 4437 4438
ENTRYPOINT ["firn"]
CMD ["serve"]
